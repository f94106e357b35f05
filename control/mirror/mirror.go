// Package mirror keeps the forwarding base equal to what Linux would do.
//
// Linux is the control plane: whatever sets links, addresses, routes, next-hop
// objects and neighbours there, by `ip`, FRR or BIRD, sets them here within
// milliseconds.
//
//	events ─► batch ─► state: links, next-hop objects,  ─► flush ─► fib.FIB
//	dumps  ─►          neighbours, routes per prefix              (then Bump)
//	workers ─► Resolve ─► asked of Linux ─► comes back as an event
//
// One goroutine owns the state and is the only writer of the base. It takes
// events in batches, changes the state, and notes the prefixes whose best route
// changed; at the end of the batch it writes those, and then frees what nothing
// refers to any more. So a prefix that changes twice in a batch is written once,
// and what a route leads to is always there before the route.
//
// Where Linux drops things without an event (IPv4 routes of a link that went
// down, next-hop objects likewise, routes whose source address is gone), or
// events were lost, the state is compared with a dump: mark what is there, sweep
// what is not. See audit.
//
// Differences from Linux:
//   - Tables main and local are consulted as one, by longest prefix; so is the
//     table default. Policy rules beyond Linux's own three, routes by type of
//     service, and IPv6 routes by source are not supported: each gives a warning.
//     strongSwan's rule gives one where its table leads elsewhere than table main.
//   - Of IPv6 routes with equal metric that are not one multipath route, the
//     first of those with the highest preference (RFC 4191) is used always.
//   - A port that is put into a VRF, bond or team is lent to Linux until it is taken out of it.
//   - A link without carrier takes no packets. Linux would send into it.
package mirror

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/hist"
)

// Port is a link that the router forwards between. Its number is its index in
// the slice that Start takes.
type Port struct {
	Name    string
	Ifindex int
}

// Hooks tell the rest of the router of changes that it acts on. Any may be nil.
// They run on the mirror's goroutine, during Start on the caller's: they must
// not wait for long, nor call the mirror.
type Hooks struct {
	// AddLocal and DeleteLocal keep the set of addresses, unicast, broadcast and
	// anycast, at which Linux itself takes packets.
	AddLocal, DeleteLocal func(netip.Addr) error
	// PortChanged tells of a port's address, MTU in bytes, or state.
	PortChanged func(port int, mac [6]byte, mtu int, up bool)
	// PortGone tells that the port's link was deleted or moved to another namespace.
	PortGone func(port int)
	// PortBack tells that a link of the same name is there in its place, and set up,
	// and asks whether it is the port from now on; PortChanged follows. It is asked
	// again when the link has been set down and up. Without the hook it is the port.
	PortBack func(port int, ifindex int) bool
	// PortLent tells that a port's link was put into a VRF, bond or team, and nothing received on it may
	// be routed by the main table; or, with lent false, that it is out of it again.
	PortLent func(port int, lent bool)
	// Own names the router's own interface, which routes lead to on purpose; "" for none.
	Own string
}

// Mirror is a running mirror.
type Mirror struct {
	state
	listener *rtnl.Listener // events
	conn     *rtnl.Conn     // dumps; the mirror's goroutine's
	asker    *asker         // asks for neighbours

	verifying sync.Mutex // one Verify at a time
	verifier  *rtnl.Conn // its dumps

	full, empty chan *events // from and to the goroutine that reads events
	calls       chan func()  // to run between batches
	stop        chan struct{}
	closing     sync.Once
	done        sync.WaitGroup

	lastMark uint32   // the last mark asked for
	waiting  []waiter // for marks
	updates  hist.Histogram
	counts   counts
	failed   bool // the last comparison with a dump
}

type counts struct {
	events, resyncs, audits, malformed uint64
	lastUpdate                         time.Duration
}

type waiter struct {
	mark    uint32
	arrived func()
}

// events are what one read gave.
type events struct {
	buf  []byte
	n    int
	err  error
	read time.Time
}

// options are set otherwise only by tests.
type options struct {
	receiveBuffer int           // of the event socket, in bytes
	refreshStale  time.Duration // how long a neighbour in use may be stale unchecked
	askEvery      time.Duration // how often a neighbour that does not answer is asked for at most
}

var defaults = options{
	receiveBuffer: 128 << 20,
	refreshStale:  20 * time.Second,
	askEvery:      time.Second,
}

const batchBuffer = 1 << 20

// Start brings f up to date with the calling thread's network namespace, and
// keeps it so until Close. Nobody else may write to f meanwhile. A nil log is
// silent.
func Start(f *fib.FIB, ports []Port, hooks Hooks, log *slog.Logger) (*Mirror, error) {
	return start(f, ports, hooks, log, defaults)
}

func start(f *fib.FIB, ports []Port, hooks Hooks, log *slog.Logger, opts options) (_ *Mirror, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Mirror{
		full: make(chan *events, 2), empty: make(chan *events, 2),
		calls: make(chan func()),
		stop:  make(chan struct{}),
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if err := m.state.init(f, ports, hooks, log); err != nil {
		return nil, err
	}
	// Listening before dumping: what changes in between is heard, not missed.
	if m.listener, err = rtnl.Listen(opts.receiveBuffer,
		unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV4_NETCONF,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_IPV6_NETCONF,
	); err != nil {
		return nil, err
	}
	if m.conn, err = rtnl.Dial(); err != nil {
		return nil, err
	}
	if m.verifier, err = rtnl.Dial(); err != nil {
		return nil, err
	}
	if m.asker, err = newAsker(opts); err != nil {
		return nil, err
	}
	m.answered = m.asker.answered
	if err := m.synchronize(); err != nil {
		return nil, fmt.Errorf("read the state of Linux's network: %w", err)
	}
	if err := m.checkPorts(); err != nil {
		return nil, err
	}
	m.checkCharon()
	m.report(time.Now())
	for range cap(m.empty) {
		m.empty <- &events{buf: make([]byte, batchBuffer)}
	}
	m.done.Go(m.listen)
	m.done.Go(func() { m.asker.run(m.stop) })
	m.done.Go(m.run)
	return m, nil
}

// Close stops the mirror. The forwarding base stays as it is.
func (m *Mirror) Close() error {
	var err error
	m.closing.Do(func() {
		close(m.stop)
		if m.listener != nil {
			err = errors.Join(err, m.listener.Close())
		}
		m.done.Wait()
		if m.asker != nil {
			err = errors.Join(err, m.asker.conn.Close())
		}
		if m.conn != nil {
			err = errors.Join(err, m.conn.Close())
		}
		m.verifying.Lock() // a Verify that is under way ends first
		defer m.verifying.Unlock()
		if m.verifier != nil {
			err = errors.Join(err, m.verifier.Close())
		}
	})
	return err
}

// listen reads events ahead while the mirror's goroutine works on the last batch.
func (m *Mirror) listen() {
	for {
		var b *events
		select {
		case b = <-m.empty:
		case <-m.stop:
			return
		}
		b.n, b.err = m.listener.Receive(b.buf)
		b.read = time.Now()
		if errors.Is(b.err, os.ErrClosed) {
			return
		}
		select {
		case m.full <- b:
		case <-m.stop:
			return
		}
	}
}

// run is the mirror's goroutine.
func (m *Mirror) run() {
	audit, armed := time.NewTimer(0), true
	tick := time.NewTicker(m.asker.opts.askEvery)
	defer tick.Stop()
	for {
		select {
		case b := <-m.full:
			m.take(b)
			m.empty <- b
		case f := <-m.calls:
			f()
		case r := <-m.asker.requests:
			m.resolve(r)
		case <-tick.C:
			m.asker.nextWindow()
			m.refresh(time.Now())
			m.expire(time.Now())
			m.checkCharon()
			m.report(time.Now())
		case <-audit.C:
			armed = false
			m.audit()
		case <-m.stop:
			return
		}
		if m.suspects.any() && !armed {
			armed = true
			audit.Reset(m.auditDelay())
		}
	}
}

// take applies a batch.
func (m *Mirror) take(b *events) {
	if b.err != nil {
		m.log.Warn("comparing all routes with Linux's", "because", b.err)
		m.resynchronize()
		return
	}
	for rest := b.buf[:b.n]; len(rest) > 0; {
		msg, tail, err := rtnl.Next(rest)
		if err == nil {
			err = m.handle(msg)
		}
		if err != nil {
			m.counts.malformed++
			m.warnOnce("malformed", "a netlink message could not be read: "+err.Error())
		}
		rest = tail
		m.counts.events++
	}
	m.commit(b.read)
}

// commit brings the base up to date with events that were read at a time, and
// counts how long that took.
func (m *Mirror) commit(read time.Time) {
	if m.flush() {
		d := time.Since(read)
		m.updates.Record(uint64(d), 1)
		m.counts.lastUpdate = d
	}
}

// handle applies a message: an event, or a piece of a dump.
func (m *Mirror) handle(msg rtnl.Message) error {
	if msg.Type == unix.NLMSG_ERROR {
		m.marked(msg.Seq)
		return nil
	}
	return m.state.handle(msg)
}

// mark calls arrived once all that has happened in Linux so far is in the base.
func (m *Mirror) mark(arrived func()) {
	m.lastMark++
	if err := m.listener.Mark(m.lastMark); err != nil {
		m.log.Warn("could not mark netlink events", "err", err)
		arrived()
		return
	}
	m.waiting = append(m.waiting, waiter{m.lastMark, arrived})
}

// marked runs those that waited for a mark, or for an earlier one that was lost.
func (m *Mirror) marked(seq uint32) {
	for len(m.waiting) > 0 && m.waiting[0].mark <= seq {
		w := m.waiting[0]
		m.waiting = m.waiting[1:]
		w.arrived()
	}
}

// Turn waits until the mirror's goroutine has begun another turn of its loop, or the mirror
// is closed.
func (m *Mirror) Turn() { m.do(func() {}) }

// do runs f on the mirror's goroutine, and reports whether it did; it does not
// once the mirror is closed.
func (m *Mirror) do(f func()) bool {
	ran := make(chan struct{})
	select {
	case m.calls <- func() { f(); close(ran) }:
		<-ran
		return true
	case <-m.stop:
		return false
	}
}
