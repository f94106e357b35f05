// Package addresses follows the addresses of network interfaces, by which a router
// speaks of packets that it received there.
package addresses

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Watcher follows addresses until it is closed.
type Watcher struct {
	changed func(i int, ipv4, ipv6 netip.Addr)
	done    chan struct{}
	ended   chan struct{}

	mu         sync.Mutex
	interfaces []int
	have       map[int][]address // by interface, of all that there are
}

// address is one of an interface's, in Linux's order.
type address struct {
	netip.Addr
	fit bool // to speak by: of global scope, and neither deprecated nor secondary
}

// Watch calls changed with the first address of each family that an interface has to
// speak by, whenever that may have changed; an invalid one stands for none. It watches
// the network namespace of the calling thread; changed must not call the watcher.
func Watch(interfaces []int, changed func(i int, ipv4, ipv6 netip.Addr)) (*Watcher, error) {
	w := &Watcher{
		changed: changed, interfaces: slices.Clone(interfaces), have: map[int][]address{},
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	updates, err := w.subscribe()
	if err != nil {
		return nil, err
	}
	go w.follow(updates)
	return w, nil
}

func (w *Watcher) subscribe() (chan netlink.AddrUpdate, error) {
	updates := make(chan netlink.AddrUpdate, 64)
	if err := netlink.AddrSubscribeWithOptions(updates, w.done, netlink.AddrSubscribeOptions{
		ListExisting: true, ReceiveBufferSize: 1 << 20, ErrorCallback: func(error) {},
	}); err != nil {
		return nil, fmt.Errorf("watch the addresses of the ports: %w", err)
	}
	return updates, nil
}

// follow applies updates. They end when more of them came than Linux could keep for
// us; then all that there is is listed anew.
func (w *Watcher) follow(updates chan netlink.AddrUpdate) {
	defer close(w.ended)
	for {
		for u := range updates {
			w.update(&u)
		}
		select {
		case <-w.done:
			return
		case <-time.After(retryAfter):
		}
		again, err := w.subscribe()
		if err != nil {
			again = make(chan netlink.AddrUpdate)
			close(again)
		}
		w.mu.Lock()
		clear(w.have)
		for i := range w.interfaces { // of one that has none any more, no update tells
			w.tell(i)
		}
		w.mu.Unlock()
		updates = again
	}
}

const retryAfter = 100 * time.Millisecond

func (w *Watcher) update(u *netlink.AddrUpdate) {
	a, is := netip.AddrFromSlice(u.LinkAddress.IP)
	if !is {
		return
	}
	a = a.Unmap()
	w.mu.Lock()
	defer w.mu.Unlock()
	have := slices.DeleteFunc(w.have[u.LinkIndex], func(o address) bool { return o.Addr == a })
	if u.NewAddr {
		const unfit = unix.IFA_F_SECONDARY | unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
		have = append(have, address{a, u.Scope == unix.RT_SCOPE_UNIVERSE && u.Flags&unfit == 0})
	}
	w.have[u.LinkIndex] = have
	if len(have) == 0 {
		delete(w.have, u.LinkIndex)
	}
	if i := slices.Index(w.interfaces, u.LinkIndex); i >= 0 {
		w.tell(i)
	}
}

// Replace says that another interface is the i-th from now on.
func (w *Watcher) Replace(i, ifindex int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interfaces[i] = ifindex
	w.tell(i)
}

func (w *Watcher) tell(i int) {
	have := w.have[w.interfaces[i]]
	w.changed(i, first(have, true), first(have, false))
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
