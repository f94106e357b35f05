// Package lab builds networks of namespaces and veth pairs for demos, benchmarks and tests.
//
// A Namespace is anonymous: only this process and its children refer to it, so that it vanishes with
// them, also after a crash. The package needs no programs of the system.
package lab

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. A new one has only the loopback link. IPv6 skips duplicate address
// detection, so that a link works as soon as it is up; IPv4 has no reverse path filter.
type Namespace struct {
	name    string // for messages
	fd      netns.NsHandle
	netlink *netlink.Handle
}

// New creates an empty namespace with its loopback up. The name is for messages. It needs root.
func New(name string) (*Namespace, error) {
	ns := &Namespace{name: name}
	if err := ns.create(); err != nil {
		return nil, fmt.Errorf("make network namespace %q: %w", name, withHint(err))
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

// withHint adds the missing privilege to EPERM.
func withHint(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w (root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, is needed)", err)
	}
	return err
}

// create creates a namespace without changing that of the thread.
func (ns *Namespace) create() error {
	return onThread(func() (err error) {
		ns.fd, err = netns.New()
		return err
	})
}

// Name returns the name given to New.
func (ns *Namespace) Name() string { return ns.name }

// Close closes the namespace. It exists, with its links, as long as processes or sockets are in it.
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

// Do runs f in the namespace, on the calling goroutine, and returns its error. Sockets that f opens
// stay in the namespace; goroutines that it starts do not.
func (ns *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(ns.fd); err != nil {
			return fmt.Errorf("enter namespace %q: %w", ns.name, withHint(err))
		}
		return f()
	})
}

// onThread runs f on a locked thread and returns the thread to its namespace. If that fails, the thread
// stays locked and ends with its goroutine, so that no other runs in the wrong namespace.
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
