// Package lab builds networks out of network namespaces and veth pairs, in
// which the router is demonstrated, measured and tested.
//
// A Namespace is anonymous: nothing but this process and the processes that it
// starts in it refer to it, so that whatever was built vanishes with them, by
// whichever way they end. Nothing here needs a program of the system.
package lab

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. It has its own links, addresses, routes and
// settings; a new one has the loopback link alone. IPv6 skips duplicate address
// detection in it, so that a link works as soon as it is up; IPv4 has no reverse path filter.
type Namespace struct {
	name    string // in messages only
	fd      netns.NsHandle
	netlink *netlink.Handle
}

// New makes an empty namespace, its loopback up. The name appears in messages.
// It needs root.
func New(name string) (*Namespace, error) {
	ns := &Namespace{name: name}
	if err := ns.create(); err != nil {
		return nil, fmt.Errorf("make network namespace %q: %w", name, mend(err))
	}
	var err error
	if ns.netlink, err = netlink.NewHandleAt(ns.fd, unix.NETLINK_ROUTE); err != nil {
		ns.Close()
		return nil, fmt.Errorf("open netlink in namespace %q: %w", name, err)
	}
	if err := ns.prepare(); err != nil {
		ns.Close()
		return nil, err
	}
	return ns, nil
}

func (ns *Namespace) prepare() error {
	for _, s := range []struct{ name, value string }{
		{"net.ipv6.conf.default.accept_dad", "0"},
		{"net.ipv4.conf.all.rp_filter", "0"}, // else those of the host, which differ
		{"net.ipv4.conf.default.rp_filter", "0"},
	} {
		if err := ns.Sysctl(s.name, s.value); err != nil {
			return err
		}
	}
	return ns.SetUp("lo")
}

func mend(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w (root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, is needed)", err)
	}
	return err
}

// create unshares a namespace off a thread and leaves the thread where it was.
func (ns *Namespace) create() error {
	return onThread(func() (err error) {
		ns.fd, err = netns.New()
		return err
	})
}

// Name is what New was given.
func (ns *Namespace) Name() string { return ns.name }

// Close lets go of the namespace. It lives on, with its links, as long as a
// process or socket in it does.
func (ns *Namespace) Close() error {
	if ns.netlink != nil {
		ns.netlink.Close()
		ns.netlink = nil
	}
	if !ns.fd.IsOpen() {
		return nil
	}
	return ns.fd.Close()
}

// Do runs f inside the namespace, on the calling goroutine, and returns its
// error. Sockets that f opens stay in the namespace; goroutines that it starts
// do not run in it.
func (ns *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(ns.fd); err != nil {
			return fmt.Errorf("enter namespace %q: %w", ns.name, mend(err))
		}
		return f()
	})
}

// onThread runs f on a thread of its own and puts the thread back into the
// namespace it came from. Should that fail, the thread stays locked and ends
// with its goroutine, rather than run others in the wrong namespace.
func onThread(f func() error) (err error) {
	runtime.LockOSThread()
	origin, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("find the current network namespace: %w", err)
	}
	defer func() {
		defer origin.Close()
		if back := netns.Set(origin); back != nil {
			err = errors.Join(err, fmt.Errorf("return to the original network namespace: %w", back))
			return
		}
		runtime.UnlockOSThread()
	}()
	return f()
}
