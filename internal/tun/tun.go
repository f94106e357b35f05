// Package tun exchanges packets between the router and the host's network stack through a TUN
// interface: the host receives delivered packets on it, and packets that the host routes to it are
// received by the router.
package tun

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// MTU is the MTU of the interface in bytes, the IPv6 minimum: packets of the host fit any tunnel.
const MTU = 1280

// Device is a TUN interface, which exists until Close. It has no addresses and routes of its own.
type Device struct {
	fd      int
	allow   func(source netip.Addr) bool
	full    chan []byte
	free    chan []byte
	done    sync.WaitGroup
	deleted atomic.Bool // somebody has deleted the interface
}

// Packets for the host are queued in buffers.
const (
	buffers   = 256
	bufferLen = 2048
)

// Open creates an interface in the network namespace of the calling thread and sets it up. The host
// only receives packets from sources that allow accepts; a goroutine of the device calls it.
func Open(name string, allow func(source netip.Addr) bool) (_ *Device, err error) {
	fail := func(err error) (*Device, error) { return nil, fmt.Errorf("create interface %s: %w", name, err) }
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return fail(fmt.Errorf("name: %w", err))
	}
	d := &Device{allow: allow, full: make(chan []byte, buffers), free: make(chan []byte, buffers)}
	if d.fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return fail(fmt.Errorf("open /dev/net/tun (load the module tun): %w", err))
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err = unix.IoctlIfreq(d.fd, unix.TUNSETIFF, ifr); err == nil {
		err = errors.Join(configure(name), setUp(name))
	}
	if err != nil {
		unix.Close(d.fd)
		return fail(err)
	}
	for range buffers {
		d.free <- make([]byte, bufferLen)
	}
	d.done.Go(d.write)
	return d, nil
}

// configure disables the kernel's IPsec, router advertisements and link-local addresses on the
// interface: the router applies its own policies.
func configure(name string) (err error) {
	for _, s := range []struct{ family, key, value string }{
		{"ipv4", "disable_policy", "1"}, {"ipv4", "disable_xfrm", "1"}, {"ipv6", "disable_policy", "1"},
		{"ipv6", "addr_gen_mode", "1"}, {"ipv6", "accept_ra", "0"},
	} {
		dir := filepath.Join("/proc/sys/net", s.family, "conf", name)
		if _, missing := os.Stat(dir); missing != nil && s.family == "ipv6" {
			continue // a host without IPv6
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, s.key), []byte(s.value), 0))
	}
	return err
}

func setUp(name string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	ifr.SetUint32(MTU)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFMTU, ifr); err != nil {
		return fmt.Errorf("set the MTU: %w", err)
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	return nil
}

// Deliver queues a copy of a packet for the host. It returns false if the queue is full or the
// interface deleted. Any goroutine may call it; it does not block.
func (d *Device) Deliver(packet []byte) bool {
	if len(packet) > bufferLen || d.deleted.Load() {
		return false
	}
	select {
	case b := <-d.free:
		d.full <- append(b[:0], packet...) // never blocks: it has room for all buffers
		return true
	default:
		return false
	}
}

// write writes the queued packets to the interface.
func (d *Device) write() {
	for b := range d.full {
		if d.allow(source(b)) {
			_, err := unix.Write(d.fd, b) // an interface that is down drops the packet
			if errors.Is(err, unix.EBADFD) {
				d.deleted.Store(true)
			}
		}
		d.free <- b
	}
}

// source returns the source address of a packet.
func source(p []byte) netip.Addr {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(p[12:]))
	case len(p) >= 40 && p[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(p[8:]))
	}
	return netip.Addr{}
}

// Receive copies the next packet of the host to dst and returns its length, 0 for none. It does not
// block.
func (d *Device) Receive(dst []byte) int {
	n, err := unix.Read(d.fd, dst)
	if err != nil {
		return 0
	}
	return n
}

// FD returns the file descriptor for poll(2).
func (d *Device) FD() int { return d.fd }

// Close deletes the interface. The device must not be used any more.
func (d *Device) Close() error {
	close(d.full)
	d.done.Wait()
	return unix.Close(d.fd)
}
