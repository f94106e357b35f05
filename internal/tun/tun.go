// Package tun has Linux and a router exchange packets by a network interface of Linux's
// (TUN): what the router delivers seems to arrive there, what Linux routes there is the
// router's.
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

// MTU is that of the interface, in bytes: what every way of IPv6 carries, so that what Linux
// sends fits a tunnel.
const MTU = 1280

// Device is an interface that exists until it is closed. It has neither addresses nor
// routes but those that others give it.
type Device struct {
	fd   int
	may  func(netip.Addr) bool
	full chan []byte
	free chan []byte
	done sync.WaitGroup
	gone atomic.Bool // somebody has deleted the interface
}

// queue is how many packets wait for Linux at most, and size how long they are.
const (
	queue = 256
	size  = 2048
)

// Open makes an interface in the network namespace of the calling thread, and sets it up.
// Linux gets packets from sources only for which may reports true. It is called on a
// goroutine of the device's.
func Open(name string, may func(source netip.Addr) bool) (_ *Device, err error) {
	fail := func(err error) (*Device, error) { return nil, fmt.Errorf("make interface %s: %w", name, err) }
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return fail(fmt.Errorf("its name: %w", err))
	}
	d := &Device{may: may, full: make(chan []byte, queue), free: make(chan []byte, queue)}
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
	for range queue {
		d.free <- make([]byte, size)
	}
	d.done.Go(d.write)
	return d, nil
}

// configure keeps Linux's own IPsec off the interface, for the router's applies there, and
// router advertisements and link-local addresses.
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
		return fmt.Errorf("set its MTU: %w", err)
	}
	ifr.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("set it up: %w", err)
	}
	return nil
}

// Deliver has Linux receive a packet, and reports whether there was room, and still is an
// interface; it keeps a copy.
// Any goroutine may call it; it does not block.
func (d *Device) Deliver(packet []byte) bool {
	if len(packet) > size || d.gone.Load() {
		return false
	}
	select {
	case b := <-d.free:
		d.full <- append(b[:0], packet...) // there are no more of them than it has room for
		return true
	default:
		return false
	}
}

func (d *Device) write() {
	for b := range d.full {
		if d.may(source(b)) {
			_, err := unix.Write(d.fd, b) // the interface may be down: as with any that is, nothing arrives
			if errors.Is(err, unix.EBADFD) {
				d.gone.Store(true)
			}
		}
		d.free <- b
	}
}

// source returns a packet's.
func source(p []byte) netip.Addr {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(p[12:]))
	case len(p) >= 40 && p[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(p[8:]))
	}
	return netip.Addr{}
}

// Take copies the next packet that Linux has sent to dst and returns its length, 0 if there
// is none. It does not block.
func (d *Device) Take(dst []byte) int {
	n, err := unix.Read(d.fd, dst)
	if err != nil {
		return 0
	}
	return n
}

// FD is what poll(2) waits on for packets to take.
func (d *Device) FD() int { return d.fd }

// Close removes the interface. Nobody may use it any more.
func (d *Device) Close() error {
	close(d.full)
	d.done.Wait()
	return unix.Close(d.fd)
}
