package guard

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// State is the last state that a Watcher read.
type State struct {
	Active bool // the table contains all ports; false: Linux can forward between them
	Ports  []Port
}

// Port contains the Linux forwarding settings of a port, by address family. The table overrides
// them.
type Port struct {
	Name       string
	IPv4, IPv6 bool
}

// Watcher maintains the table of a running gateway and logs changes of the Linux forwarding
// settings.
type Watcher struct {
	drop  bool
	log   *slog.Logger
	table *Table
	conn  *rtnl.Conn

	refreshing sync.Mutex // guards the fields below, and the table
	ports      []string
	started    bool

	known map[int]bool          // interface indices of the ports, including renamed ones
	last  map[string]forwarding // by interface name

	events []*rtnl.Listener
	wake   chan struct{} // requests a refresh
	ended  sync.WaitGroup
	ending chan struct{}

	mu    sync.Mutex
	state State
}

// eventBuffer is the receive buffer size of a listener, in bytes. Lost events cause a refresh.
const eventBuffer = 1 << 20

// Watch keeps Linux from forwarding packets from and to the ports and their stacked interfaces,
// in the network namespace of the calling thread, until Close.
//
// The ports need not exist. Without drop, it installs no table and only logs the settings.
func Watch(ports []string, drop bool, log *slog.Logger) (w *Watcher, err error) {
	w = &Watcher{ports: slices.Clone(ports), drop: drop, log: log, known: map[int]bool{}, last: map[string]forwarding{}, wake: make(chan struct{}, 1), ending: make(chan struct{})}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if drop {
		if w.table, err = Open(); err != nil {
			return nil, err
		}
		if _, err = w.table.Guard(ports...); err != nil {
			return nil, err
		}
	}
	if w.conn, err = rtnl.Dial(); err != nil {
		return nil, err
	}
	if err := w.listen(unix.NETLINK_ROUTE, func(rtnl.Message) bool { return true }, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF); err != nil {
		return nil, err
	}
	if drop {
		if err := w.listen(unix.NETLINK_NETFILTER, mentionsTable, unix.NFNLGRP_NFTABLES); err != nil {
			return nil, err
		}
	}
	if err := w.refresh(); err != nil {
		return nil, fmt.Errorf("guard ports %q: %w", ports, err)
	}
	w.ended.Go(w.follow)
	return w, nil
}

// Add adds a port. When it returns, Linux forwards no packet from or to it. Ports stay in the table.
func (w *Watcher) Add(port string) error {
	w.refreshing.Lock()
	defer w.refreshing.Unlock()
	if slices.Contains(w.ports, port) {
		return nil
	}
	if w.drop {
		if _, err := w.table.Guard(port); err != nil {
			return err
		}
	}
	w.ports = append(w.ports, port)
	w.Check()
	return nil
}

// GuardStacked is Table.GuardStacked until Started: before the gateway handles VLANs, and when it ends and no other has its ports.
func (w *Watcher) GuardStacked() error {
	w.refreshing.Lock()
	defer w.refreshing.Unlock()
	w.started = false
	if !w.drop {
		return nil
	}
	return w.table.GuardStacked()
}

// Started tells that the gateway handles the frames of all VLANs of its ports, and drops those of unknown ones: what GuardStacked
// blocks is no longer blocked.
func (w *Watcher) Started() {
	w.refreshing.Lock()
	w.started = true
	w.refreshing.Unlock()
	w.Check()
}

// mentionsTable reports whether an nf_tables event contains the name of the table.
func mentionsTable(msg rtnl.Message) bool { return bytes.Contains(msg.Data, []byte(table)) }

// listen requests a refresh after each relevant event of the netlink groups.
func (w *Watcher) listen(family int, relevant func(rtnl.Message) bool, groups ...int) error {
	l, err := rtnl.ListenFamily(family, eventBuffer, groups...)
	if err != nil {
		return err
	}
	w.events = append(w.events, l)
	w.ended.Go(func() {
		buf := make([]byte, rtnl.MinBuffer)
		for {
			n, err := l.Receive(buf)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			changed := err != nil // events were lost
			for b := buf[:n]; len(b) > 0 && !changed; {
				var msg rtnl.Message
				msg, b, err = rtnl.Next(b)
				changed = err != nil || relevant(msg)
			}
			if changed {
				w.Check()
			}
		}
	})
	return nil
}

// Check requests a refresh. It does not block.
func (w *Watcher) Check() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

const (
	refreshDelay = 50 * time.Millisecond // collects bursts of events into one refresh
	retryAfter   = time.Second
)

// follow refreshes after events until Close.
func (w *Watcher) follow() {
	for {
		select {
		case <-w.ending:
			return
		case <-w.wake:
		}
		select {
		case <-w.ending:
			return
		case <-time.After(refreshDelay):
		}
		if err := w.refresh(); err != nil {
			w.log.Error("guard of the ports failed, retrying", "err", err)
			w.mu.Lock()
			w.state.Active = false
			w.mu.Unlock()
			time.AfterFunc(retryAfter, w.Check)
		}
	}
}

// refresh reads interfaces and settings, restores the table, and logs changes.
func (w *Watcher) refresh() error {
	w.refreshing.Lock()
	defer w.refreshing.Unlock()
	h, err := readHost(w.conn)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, name := range w.ports {
		names[name] = true
	}
	present := map[int]bool{}
	state := State{Active: w.drop}
	for _, l := range h.links {
		if !names[l.Name] && !w.known[l.Index] {
			continue
		}
		present[l.Index] = true
		now, before := h.settings[l.Index], w.last[l.Name]
		w.report(l.Name, "ipv4", before.ipv4, now.ipv4)
		w.report(l.Name, "ipv6", before.ipv6, now.ipv6)
		w.last[l.Name] = now
		state.Ports = append(state.Ports, Port{l.Name, now.ipv4, now.ipv6})
	}
	w.known = present
	if w.drop {
		for _, name := range stacked(h.links, present) {
			names[name] = true
		}
		if err := w.restore(names); err != nil {
			return err
		}
		if w.started {
			if err := w.table.ReleaseStacked(); err != nil {
				return err
			}
		}
	}
	w.mu.Lock()
	w.state = state
	w.mu.Unlock()
	return nil
}

// restore adds missing interfaces to the table, and replaces a damaged table.
func (w *Watcher) restore(names map[string]bool) error {
	have, intact, err := w.table.read()
	if err != nil {
		return err
	}
	lost := !intact
	for _, name := range w.ports {
		lost = lost || !slices.Contains(have, name)
	}
	changed, err := w.table.Guard(slices.Sorted(maps.Keys(names))...)
	if err == nil && changed && lost {
		w.log.Error("nftables table was changed or removed while the gateway ran; restored", "table", TableName,
			"hint", "have scripts flush their own tables, not the ruleset; `warproute release` is for gateways that have stopped")
	}
	return err
}

// report logs a change of a forwarding setting.
func (w *Watcher) report(port, family string, before, now bool) {
	switch {
	case before == now:
	case !now:
		w.log.Info("linux forwarding is off", "port", port, "family", family)
	case w.drop:
		w.log.Warn("linux forwarding is on", "port", port, "family", family, "reason", "nftables table "+TableName+" drops packets from and to the ports all the same")
	default:
		w.log.Error("linux forwarding is on: when the gateway ends, protected packets leave in cleartext", "port", port, "family", family,
			"hint", "turn it off by sysctl, or set ipsec.linux_forwarding: drop")
	}
}

// State returns the state as of the last refresh.
func (w *Watcher) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// Close stops the watcher. The table remains.
func (w *Watcher) Close() {
	close(w.ending)
	for _, l := range w.events {
		_ = l.Close()
	}
	w.ended.Wait()
	if w.conn != nil {
		_ = w.conn.Close()
	}
	if w.table != nil {
		_ = w.table.Close()
	}
}
