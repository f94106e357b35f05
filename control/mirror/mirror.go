// Package mirror synchronizes a FIB with the routes of Linux.
//
// Linux is the control plane: links, addresses, routes, next-hop objects and neighbors that
// `ip`, FRR or BIRD set there take effect here within milliseconds.
//
//	events ─► batch ─► state: links, next-hop objects,  ─► write ─► fib.FIB
//	dumps  ─►          neighbors, routes per prefix                 (then Commit)
//	workers ─► Resolve ─► neighbor request to Linux ─► event
//
// One goroutine owns the state and is the only writer of the FIB. It applies a batch of
// events to the state, collects the prefixes whose best route changed, writes them at the end
// of the batch, and then frees unreferenced entries. A prefix that changes twice in a batch is
// written with its last next hop, and a next hop is written before the routes that use it.
//
// Linux deletes some entries without an event: IPv4 routes and next-hop objects of a link that
// goes down, routes whose source address is deleted. After such a change, or after lost events,
// the state is compared with a dump by mark and sweep. See audit.
//
// Differences from Linux:
//   - Tables local, main and default are searched as one, by longest prefix. A table of a VRF is searched alone.
//     Rules by ingress interface are followed: see ingress.go. Other rules beyond Linux's default three, and that of VRFs,
//     routes by type of service, and IPv6 routes by source are not supported: each gives a warning. The rule of strongSwan
//     gives one only if its table and table main lead to different next hops.
//   - Of IPv6 routes with equal metric that are not one multipath route, the first with the
//     highest preference (RFC 4191) is used.
//   - A port in a team, or a bond that is no port, is paused until it is removed from it; on an IPsec gateway
//     also one in a VRF.
//   - A link without carrier transmits no packets. Linux would transmit.
//
// A bond of ports is a logical port, and its members are none: see bond.go.
//
// The VLAN links of ports are ports, too, while they exist: see vlan.go. Routes over the macvlan links of
// a port are routes over the port.
package mirror

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/hist"
)

// Port is a physical port: a link that the router forwards between. Its number is its index in
// the slice passed to Start, or that of AddPort. Logical ports have higher numbers.
type Port struct {
	Name    string
	Ifindex int
	Bond    string // name of the bond of which the link is a member, "" for none: the bond is a logical port
}

// Hooks are called on changes. Any may be nil. They run on the mirror's goroutine, during
// Start on the caller's, and must neither block for long nor call the mirror.
type Hooks struct {
	// AddLocal and DeleteLocal maintain the unicast, broadcast and anycast addresses that
	// Linux receives on.
	AddLocal, DeleteLocal func(netip.Addr) error
	// PortChanged reports the MAC address, MTU in bytes and state of a port.
	PortChanged func(port int, mac [6]byte, mtu int, up bool)
	// PortGone reports that the link of a port was deleted or moved to another namespace.
	PortGone func(port int)
	// PortBack decides whether a new link with the name of a deleted port becomes the port;
	// PortChanged follows. After false it is called again when the link is set down and up.
	// Without the hook the link becomes the port.
	PortBack func(port int, ifindex int) bool
	// PortPaused reports that a port joined (paused) or left a VRF, bond or team. A paused
	// port must not forward.
	PortPaused func(port int, paused bool)
	// PortAdded reports a VLAN link or bond that becomes a logical port. It precedes the port's entry in the
	// FIB; PortChanged follows.
	PortAdded func(LogicalPort)
	// PortRenamed reports another name of a logical port.
	PortRenamed func(port int, name string)
	// PortDeleted reports that a logical port was deleted. It precedes the deletion of the entry in the
	// FIB.
	PortDeleted func(port int)
	// MembersChanged reports the states of all members of a bond, by its logical port. Until the first report, and
	// after PortDeleted, members neither receive nor transmit.
	MembersChanged func(bond int, members []Member)
	// LinksChanged reports that links were added, deleted or changed.
	LinksChanged func()
	// MACAdded and MACDeleted maintain the MAC addresses of macvlan links on a port, physical or logical:
	// frames to them are received by the port.
	MACAdded, MACDeleted func(port int, mac [6]byte)
	// Own is the router's own interface to tunnels, whose routes give no warning; "" for none.
	Own string
	// Tunnels reports all XFRM interfaces after a change. Without the hook, routes over them are as over any
	// interface that is not a port.
	Tunnels func([]Tunnel)
	// VRFs is true if ports may be in VRFs, whose tables the mirror follows. Otherwise it pauses them.
	VRFs bool
	// Exits is true if the router passes packets for interfaces that are not ports to Linux, by
	// ExitInterface.
	Exits         bool
	ExitInterface string
}

// Mirror is a running mirror.
type Mirror struct {
	state
	loop     *rtnl.Loop
	conn     *rtnl.Conn // dumps, for the mirror's goroutine
	resolver *resolver

	verifying sync.Mutex // one Verify at a time
	verifier  *rtnl.Conn // dumps of Verify

	updates    hist.Histogram // nanoseconds from the receipt of changes to FIB.Commit
	audits     uint64
	lastUpdate time.Duration
	failed     bool // the last comparison with a dump
}

// options differ from the defaults only in tests.
type options struct {
	receiveBuffer int           // of the event socket, in bytes
	refreshStale  time.Duration // age after which a stale neighbor in use is probed
	askEvery      time.Duration // minimum interval of requests for one neighbor
}

var defaults = options{
	receiveBuffer: 128 << 20,
	refreshStale:  20 * time.Second,
	askEvery:      time.Second,
}

// Start synchronizes f with the calling thread's network namespace until Close. Ports without a name are
// numbers of later ports (AddPort). The mirror is
// the only writer of f. A nil log discards messages.
func Start(f *fib.FIB, ports []Port, hooks Hooks, log *slog.Logger) (*Mirror, error) {
	return start(f, ports, hooks, log, defaults)
}

func start(f *fib.FIB, ports []Port, hooks Hooks, log *slog.Logger, opts options) (_ *Mirror, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := new(Mirror)
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := m.state.init(f, ports, hooks, log); err != nil {
		return nil, err
	}
	if err := m.connect(opts); err != nil {
		return nil, err
	}
	if err := m.synchronize(); err != nil {
		return nil, fmt.Errorf("read Linux routes: %w", err)
	}
	if err := m.checkPorts(); err != nil {
		return nil, err
	}
	m.checkCharon()
	m.checkDefaults()
	m.report(time.Now())
	m.resolver.start()
	m.loop.Start(m.run)
	return m, nil
}

// connect opens the sockets. The event socket is first, so that changes during a dump are
// queued.
func (m *Mirror) connect(opts options) (err error) {
	if m.loop, err = rtnl.OpenLoop(unix.NETLINK_ROUTE, opts.receiveBuffer,
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV6_NETCONF,
	); err != nil {
		return err
	}
	if m.conn, err = rtnl.Dial(); err != nil {
		return err
	}
	if m.verifier, err = rtnl.Dial(); err != nil {
		return err
	}
	if m.resolver, err = newResolver(opts); err != nil {
		return err
	}
	m.onResolved = m.resolver.forget
	return nil
}

// Close stops the mirror. The FIB keeps its content.
func (m *Mirror) Close() error {
	var errs []error
	if m.loop != nil {
		errs = append(errs, m.loop.Close())
	}
	m.verifying.Lock() // wait for a running Verify
	defer m.verifying.Unlock()
	if m.resolver != nil {
		errs = append(errs, m.resolver.close())
	}
	for _, c := range []*rtnl.Conn{m.conn, m.verifier} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// run is the mirror's goroutine.
func (m *Mirror) run() {
	audit, armed := time.NewTimer(0), true
	tick := time.NewTicker(m.resolver.opts.askEvery)
	defer tick.Stop()
	for {
		select {
		case b := <-m.loop.Events:
			m.apply(b)
		case f := <-m.loop.Calls:
			f()
		case r := <-m.resolver.requests:
			m.resolve(r)
		case <-tick.C:
			m.periodic(time.Now())
		case <-audit.C:
			armed = false
			m.audit()
		case <-m.loop.Done:
			return
		}
		if m.suspects.any() && !armed {
			armed = true
			audit.Reset(m.auditDelay())
		}
	}
}

func (m *Mirror) periodic(now time.Time) {
	m.resolver.nextWindow()
	m.refresh(now)
	m.expire(now)
	m.checkCharon()
	m.checkDefaults()
	m.report(now)
}

// apply applies a batch of events.
func (m *Mirror) apply(b *rtnl.Batch) {
	read := b.Read
	err := m.loop.Apply(b, m.state.handle, func(err error) {
		m.warnOnce("malformed", "malformed netlink message: "+err.Error())
	})
	if err != nil {
		m.log.Warn("netlink events lost, resyncing all routes", "err", err)
		m.resynchronize()
		return
	}
	m.finishBatch(read)
}

// finishBatch writes changes to the FIB and commits them (FIB.Commit), and records the time since their events were read.
func (m *Mirror) finishBatch(read time.Time) {
	if m.writeChanges() {
		d := time.Since(read)
		m.updates.Record(uint64(d), 1)
		m.lastUpdate = d
	}
}

// afterPendingEvents calls arrived once all changes made in Linux so far are applied to the state.
func (m *Mirror) afterPendingEvents(arrived func()) {
	if err := m.loop.Mark(arrived); err != nil {
		m.log.Warn("mark netlink events", "err", err)
		arrived()
	}
}

// Barrier waits until the mirror's goroutine is between two batches, or the mirror is closed.
func (m *Mirror) Barrier() { m.do(func() {}) }

// do runs f on the mirror's goroutine. It reports false, without running f, after Close.
func (m *Mirror) do(f func()) bool { return m.loop.Do(f) }
