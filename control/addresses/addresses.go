// Package addresses follows the addresses of network interfaces, by which a router
// speaks of packets that it received there.
package addresses

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Watcher follows addresses until it is closed.
type Watcher struct {
	done  chan struct{}
	ended chan struct{}
}

// address is one of an interface's, in Linux's order.
type address struct {
	netip.Addr
	fit bool // to speak by: of global scope, and neither deprecated nor secondary
}

// Watch calls changed with the first address of each family that an interface has to
// speak by, whenever that may have changed; an invalid one stands for none. It watches
// the network namespace of the calling thread; changed runs on a goroutine of its own.
func Watch(interfaces []int, changed func(i int, ipv4, ipv6 netip.Addr)) (*Watcher, error) {
	w := &Watcher{done: make(chan struct{}), ended: make(chan struct{})}
	updates := make(chan netlink.AddrUpdate, 64)
	if err := netlink.AddrSubscribeWithOptions(updates, w.done, netlink.AddrSubscribeOptions{
		ListExisting: true, ReceiveBufferSize: 1 << 20, ErrorCallback: func(error) {},
	}); err != nil {
		return nil, fmt.Errorf("watch the addresses of the ports: %w", err)
	}
	go func() {
		defer close(w.ended)
		have := make([][]address, len(interfaces))
		for u := range updates {
			i := slices.Index(interfaces, u.LinkIndex)
			a, is := netip.AddrFromSlice(u.LinkAddress.IP)
			if i < 0 || !is {
				continue
			}
			a = a.Unmap()
			have[i] = slices.DeleteFunc(have[i], func(o address) bool { return o.Addr == a })
			if u.NewAddr {
				const unfit = unix.IFA_F_SECONDARY | unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
				have[i] = append(have[i], address{a, u.Scope == unix.RT_SCOPE_UNIVERSE && u.Flags&unfit == 0})
			}
			changed(i, first(have[i], true), first(have[i], false))
		}
	}()
	return w, nil
}

func first(all []address, ipv4 bool) netip.Addr {
	for _, a := range all {
		if a.fit && a.Is4() == ipv4 {
			return a.Addr
		}
	}
	return netip.Addr{}
}

// Close ends the watch.
func (w *Watcher) Close() {
	close(w.done)
	<-w.ended
}
