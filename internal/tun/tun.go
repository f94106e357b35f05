// Package tun exchanges packets between the router and the host's network stack through a TUN
// interface: the host receives packets on it, and packets that the host routes to it are received by the
// router. Packets of one flow pass as one large packet (package offload).
package tun

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// MinMTU is the IPv6 minimum MTU in bytes: packets of this size fit any tunnel.
const MinMTU = 1280

// Options describe an interface.
type Options struct {
	Queues  int  // one for each worker
	MTU     int  // of packets from the host, in bytes
	Burst   int  // most packets of a call of Queue.Send
	Forward bool // Linux forwards packets that it receives on the interface
}

// Device is a TUN interface, which exists until Close. It has no routes of its own.
type Device struct {
	name    string
	forward bool
	queues  []*Queue
}

// Constants of linux/if_tun.h that package unix lacks: offloads of TUNSETOFFLOAD.
const (
	offloadChecksum = 0x01
	offloadTCP4     = 0x02
	offloadTCP6     = 0x04
	offloadECN      = 0x08
	offloadUDP      = 0x20 | 0x40 // IPv4 and IPv6, since Linux 6.2
	offloadTCP      = offloadChecksum | offloadTCP4 | offloadTCP6 | offloadECN
)

// Open creates an interface in the network namespace of the calling thread and sets it up. Linux replaces
// %d in the name by a free number.
func Open(name string, o Options) (_ *Device, err error) {
	d := &Device{name: name, forward: o.Forward}
	defer func() {
		if err != nil {
			err = fmt.Errorf("create interface %s: %w", name, errors.Join(err, d.Close()))
		}
	}()
	for range o.Queues {
		if err := d.addQueue(o.Burst); err != nil {
			return nil, err
		}
	}
	return d, errors.Join(d.Configure(), d.setUp(o.MTU))
}

// Inherit opens an interface that another process has, by the file descriptors of its queues, which it closes
// with the device. One of the two processes reads at a time.
func Inherit(name string, fds []int, o Options) (_ *Device, err error) {
	d := &Device{name: name, forward: o.Forward}
	defer func() {
		if err != nil {
			err = fmt.Errorf("inherit interface %s: %w", name, errors.Join(err, d.Close()))
		}
	}()
	for i, fd := range fds {
		if i >= o.Queues {
			_ = unix.Close(fd)
			continue
		}
		d.queues = append(d.queues, newQueue(fd, o.Burst))
		if err = d.queues[i].offload(); err != nil {
			return nil, err
		}
	}
	for len(d.queues) < o.Queues {
		if err := d.addQueue(o.Burst); err != nil {
			return nil, err
		}
	}
	return d, errors.Join(d.Configure(), d.setUp(o.MTU))
}

// addQueue opens a queue; the first one creates the interface, which must not exist.
func (d *Device) addQueue(burst int) error {
	ifr, err := unix.NewIfreq(d.name)
	if err != nil {
		return fmt.Errorf("name: %w", err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun (load the module tun): %w", err)
	}
	flags := uint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE)
	if len(d.queues) == 0 {
		flags |= unix.IFF_TUN_EXCL
	}
	ifr.SetUint16(flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("an interface of this name exists; delete it (ip link delete %s) or configure another name: %w", d.name, err)
		}
		return err
	}
	d.name = ifr.Name()
	q := newQueue(fd, burst)
	d.queues = append(d.queues, q)
	return q.offload()
}

// offload enables segmentation offloads.
func (q *Queue) offload() error {
	if unix.IoctlSetInt(q.fd, unix.TUNSETOFFLOAD, offloadTCP|offloadUDP) == nil {
		return nil
	}
	q.noUDP = true // an old kernel
	if err := unix.IoctlSetInt(q.fd, unix.TUNSETOFFLOAD, offloadTCP); err != nil {
		return fmt.Errorf("enable offloads: %w", err)
	}
	return nil
}

// Name returns the name of the interface.
func (d *Device) Name() string { return d.name }

// Queues returns the queues.
func (d *Device) Queues() []*Queue { return d.queues }

// LooseSource is the IPv4 address of an interface on which Linux forwards. Linux ignores rp_filter=2 on an
// interface without an address, and drops packets whose sources are routed by other interfaces. Packets with
// this address leave no host (RFC 1122 section 3.2.1.3).
var LooseSource = netip.AddrFrom4([4]byte{127, 255, 0, 1})

// Configure writes the settings of the interface, also after somebody has changed them: neither IPsec of the
// kernel, since the router applies its own policies, nor router advertisements, redirects or link-local
// addresses. Linux forwards packets from the interface if Options.Forward asks for it, from any source, since
// rp_filter of the ports has been applied.
func (d *Device) Configure() (err error) {
	settings := []string{
		"ipv4 disable_policy 1", "ipv4 disable_xfrm 1", "ipv6 disable_policy 1", "ipv6 addr_gen_mode 1", "ipv6 accept_ra 0",
	}
	if d.forward {
		settings = append(settings, "ipv4 accept_redirects 0", "ipv4 send_redirects 0", "ipv4 rp_filter "+laxFilter(), "ipv4 forwarding 1",
			"ipv6 accept_redirects 0", "ipv6 forwarding 1", "ipv6 force_forwarding 1")
	}
	for _, s := range settings {
		f := strings.Fields(s)
		path := filepath.Join("/proc/sys/net", f[0], "conf", d.name, f[1])
		have, readErr := os.ReadFile(path)
		if readErr != nil && f[0] == "ipv6" || strings.TrimSpace(string(have)) == f[2] {
			continue // a host without IPv6, or a kernel without the setting (force_forwarding: 6.17)
		}
		err = errors.Join(err, os.WriteFile(path, []byte(f[2]), 0))
	}
	return err
}

// laxFilter returns the rp_filter of an interface with which Linux drops the fewest packets. Linux uses the larger one of it
// and that of "all". Sources are routed by other interfaces, which only 2 permits if that of "all" is 1.
func laxFilter() string {
	if all, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/rp_filter"); err == nil && strings.TrimSpace(string(all)) == "0" {
		return "0"
	}
	return "2"
}

// setUp sets the MTU and the address, and sets the interface up.
func (d *Device) setUp(mtu int) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq(d.name)
	if err != nil {
		return err
	}
	if d.forward {
		if err := ifr.SetInet4Addr(LooseSource.AsSlice()); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(s, unix.SIOCSIFADDR, ifr); err != nil {
			return fmt.Errorf("set the address %v: %w", LooseSource, err)
		}
	}
	ifr.SetUint32(uint32(mtu))
	if err := unix.IoctlIfreq(s, unix.SIOCSIFMTU, ifr); err != nil {
		return fmt.Errorf("set the MTU %d: %w", mtu, err)
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	return nil
}

// Close deletes the interface. The device and its queues must not be used any more.
func (d *Device) Close() (err error) {
	for _, q := range d.queues {
		err = errors.Join(err, unix.Close(q.fd))
	}
	d.queues = nil
	return err
}
