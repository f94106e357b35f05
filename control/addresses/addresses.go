// Package addresses tracks the addresses of network interfaces for ICMP source address selection.
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

// Watcher tracks addresses until Close.
type Watcher struct {
	changed func(i int, ipv4, ipv6 netip.Addr)
	done    chan struct{}
	ended   chan struct{}

	mu         sync.Mutex
	interfaces map[int]int       // by number
	numbers    map[int][]int     // by interface index
	have       map[int][]address // by interface index, in Linux order
}

// address is an address of an interface.
type address struct {
	netip.Addr
	fit bool // usable as a source: global scope, not secondary, deprecated or tentative
}

// Watch calls changed after each change of an address, with the index into interfaces and the first
// usable address of each family, invalid for none. changed must not call the watcher.
//
// It watches the network namespace of the calling thread.
func Watch(interfaces []int, changed func(i int, ipv4, ipv6 netip.Addr)) (*Watcher, error) {
	w := &Watcher{
		changed: changed, interfaces: map[int]int{}, numbers: map[int][]int{}, have: map[int][]address{},
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	for i, ifindex := range interfaces {
		w.add(i, ifindex)
	}
	updates, err := w.subscribe()
	if err != nil {
		return nil, err
	}
	go w.follow(updates)
	return w, nil
}

// subscribe requests existing addresses and changes.
func (w *Watcher) subscribe() (chan netlink.AddrUpdate, error) {
	updates := make(chan netlink.AddrUpdate, 64)
	if err := netlink.AddrSubscribeWithOptions(updates, w.done, netlink.AddrSubscribeOptions{
		ListExisting: true, ReceiveBufferSize: 1 << 20, ErrorCallback: func(error) {},
	}); err != nil {
		return nil, fmt.Errorf("watch the addresses of the ports: %w", err)
	}
	return updates, nil
}

// follow applies updates. After an overrun ends the subscription, it subscribes again, which dumps
// the addresses.
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
		for i := range w.interfaces { // the dump omits interfaces without addresses
			w.report(i)
		}
		w.mu.Unlock()
		updates = again
	}
}

// retryAfter is the delay before a new subscription.
const retryAfter = 100 * time.Millisecond

// update applies one update.
func (w *Watcher) update(u *netlink.AddrUpdate) {
	a, ok := netip.AddrFromSlice(u.LinkAddress.IP)
	if !ok {
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
	for _, i := range w.numbers[u.LinkIndex] {
		w.report(i)
	}
}

// Remove removes the i-th interface.
func (w *Watcher) Remove(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(i)
}

// add adds the i-th interface, which is removed.
func (w *Watcher) add(i, ifindex int) {
	w.interfaces[i] = ifindex
	w.numbers[ifindex] = append(w.numbers[ifindex], i)
}

func (w *Watcher) remove(i int) {
	ifindex := w.interfaces[i]
	delete(w.interfaces, i)
	w.numbers[ifindex] = slices.DeleteFunc(w.numbers[ifindex], func(n int) bool { return n == i })
	if len(w.numbers[ifindex]) == 0 {
		delete(w.numbers, ifindex)
	}
}

// Replace adds or replaces the i-th interface.
func (w *Watcher) Replace(i, ifindex int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(i)
	w.add(i, ifindex)
	w.report(i)
}

// report calls changed for the i-th interface.
func (w *Watcher) report(i int) {
	have := w.have[w.interfaces[i]]
	w.changed(i, first(have, true), first(have, false))
}

// first returns the first usable address of a family, invalid for none.
func first(all []address, ipv4 bool) netip.Addr {
	for _, a := range all {
		if a.fit && a.Is4() == ipv4 {
			return a.Addr
		}
	}
	return netip.Addr{}
}

// Close stops the watcher.
func (w *Watcher) Close() {
	close(w.done)
	<-w.ended
}
