// Package xfrm keeps an IPsec gateway equal to Linux's XFRM states and policies.
//
// Linux's databases are where key daemons leave what they agreed on with a peer. So
// an unmodified strongSwan (or `ip xfrm`) is the gateway's: it never learns that the
// packets do not pass through Linux.
//
//	events ─► batch ─► states   ─► gateway.Add, Remove      (at once)
//	dumps  ─►          policies ─► gateway.SetRules         (once a batch)
//	counters, sequence numbers, soft and hard expiry ◄─ every second ─► Linux
//
// One goroutine owns all of it, and is the one that changes the gateway. Where events
// were lost, everything is compared with a dump: what it does not have goes.
//
// States become associations. Linux keeps no direction with a state before 6.10: the
// outer address that is the router's own tells it, or else the policy that names the
// state. Of the outbound associations of a bundle that one is used whose SPI the policy's
// template has, or else the newest; inbound ones all are, until each is deleted. That is
// how IKE daemons rekey without losing a packet: they install inbound and outbound ones,
// change the policies when the peer is known to have its own, and only then end the old.
//
// Policies become rules, by priority and then age. Linux has three directions: out; in,
// for packets to the router; and fwd, for packets that it forwards. Here fwd and in are
// both inbound rules, one where they are equal: key daemons make them in pairs. What an in
// policy lets pass comes behind all fwd policies, so that it opens nothing that they close.
//
// What must not go wrong:
//   - Fail closed. What a policy protects by a state that is refused, missing or gone is
//     dropped. A policy that cannot be expressed discards all that its selector may
//     mean. Refusals are logged with their reason.
//   - No sequence number twice with a key. A state that comes again (NAT mappings,
//     MOBIKE, manual changes) goes on where its predecessor ended, not where Linux
//     believes that it did; after a restart, far beyond. See memory and restartGap.
//   - Keys are overwritten in what was read, and with an association when no worker
//     can use it any more.
//
// Differences from Linux:
//   - A template's SPI chooses for all policies of its bundle. While no state has it, the
//     newest is used. The algorithms that a template permits choose nothing.
//   - A state is asked for (ACQUIRE) with the policy's selector, not with the packet's
//     addresses, and nothing waits for it: packets are dropped until it is there.
//   - A replay window of Linux that is narrower than minWindow is widened: workers side
//     by side swap more packets than one does.
//   - IVs are sequence numbers alone; Linux's begin with a random number of the state's. So a
//     key that is set by hand must be new when it is added anew while the router is away:
//     what it was used for is known to Linux with the state, and to the mirror while it runs.
//   - Packets that Linux itself sends or receives by these states bypass the gateway. Its
//     sequence numbers and ours are kept from falling behind each other, but the peer may
//     take some for replays.
package xfrm

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
	"github.com/warproute/warproute/ipsec/gateway"
)

// Hooks connect the mirror with the rest of the router. Any may be nil.
type Hooks struct {
	// IsLocal tells whether an address is the router's own. It is called on the
	// mirror's goroutine, during Start on the caller's.
	IsLocal func(netip.Addr) bool
	// Quiescent runs f, on any goroutine, once every worker has finished the batch that
	// it is at now. Until then keys of associations that were removed stay. Without the
	// hook f runs at once: for a gateway without workers.
	Quiescent func(f func())
	// Changed tells that the gateway was changed, once a batch.
	Changed func()
}

// Mirror is a running mirror.
type Mirror struct {
	*tables
	listener *rtnl.Listener
	conn     *rtnl.Conn

	full, empty chan *events
	calls       chan func()
	stop        chan struct{}
	closing     sync.Once
	done        sync.WaitGroup

	asking map[uint32]time.Time // when key daemons were asked, by bundle

	stale  bool // the tables may lack what an event or a dump would have told
	counts struct{ events, resyncs, malformed, pushes, acquires uint64 }
}

// events are what one read gave.
type events struct {
	buf []byte
	n   int
	err error
}

const (
	batchBuffer = 1 << 20
	every       = time.Second // how often Linux is told what was used
)

// receiveBuffer is that of the event socket. Tests have a smaller one.
var receiveBuffer = 32 << 20

// Start brings g up to date with the XFRM of the calling thread's network namespace,
// and keeps it so until Close. workers is what ipsec.NewSA wants. Nobody else may
// change g meanwhile. A nil log is silent.
func Start(g *gateway.Gateway, workers int, hooks Hooks, log *slog.Logger) (_ *Mirror, err error) {
	m := &Mirror{
		tables: newTables(g, workers, hooks, log),
		full:   make(chan *events, 2), empty: make(chan *events, 2),
		calls: make(chan func()), stop: make(chan struct{}), asking: map[uint32]time.Time{},
	}
	g.Missing = make(chan uint32, 64)
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	// Listening before dumping: what changes in between is heard, not missed.
	groups := []int{groupExpire, groupSA, groupPolicy, groupMigrate}
	if m.listener, err = rtnl.ListenFamily(unix.NETLINK_XFRM, receiveBuffer, groups...); err != nil {
		return nil, fmt.Errorf("listen to XFRM: %w", err)
	}
	if m.conn, err = rtnl.DialFamily(unix.NETLINK_XFRM); err != nil {
		return nil, fmt.Errorf("connect to XFRM: %w", err)
	}
	m.gap = restartGap
	if err := m.synchronize(); err != nil {
		return nil, fmt.Errorf("read Linux's XFRM states and policies: %w", err)
	}
	m.gap = 0
	if err := m.pushGaps(); err != nil {
		return nil, err
	}
	for range cap(m.empty) {
		m.empty <- &events{buf: make([]byte, batchBuffer)}
	}
	m.done.Go(m.listen)
	m.done.Go(m.run)
	return m, nil
}

// Close stops the mirror, after it has told Linux once more what was used. The gateway
// stays as it is.
func (m *Mirror) Close() error {
	var err error
	m.closing.Do(func() {
		close(m.stop)
		if m.listener != nil {
			err = errors.Join(err, m.listener.Close())
		}
		m.done.Wait()
		if m.conn != nil {
			m.conn.Wipe()
			err = errors.Join(err, m.conn.Close())
		}
	})
	return err
}

// Do runs f on the goroutine that changes the gateway, as gateway.All wants, and
// reports whether it did; it does not once the mirror is closed.
func (m *Mirror) Do(f func()) bool {
	ran := make(chan struct{})
	select {
	case m.calls <- func() { f(); close(ran) }:
		<-ran
		return true
	case <-m.stop:
		return false
	}
}

// listen reads events ahead while the mirror's goroutine works on the last batch.
func (m *Mirror) listen() {
	for {
		select {
		case b := <-m.empty:
			b.n, b.err = m.listener.Receive(b.buf)
			if errors.Is(b.err, os.ErrClosed) {
				return
			}
			m.full <- b // there are no more of them than it has room for
		case <-m.stop:
			return
		}
	}
}

// run is the mirror's goroutine.
func (m *Mirror) run() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case b := <-m.full:
			m.take(b)
		case f := <-m.calls:
			f()
		case <-m.quiesced.wake:
		case bundle := <-m.gateway.Missing:
			m.acquire(bundle)
		case <-tick.C:
			m.push()
			m.decide()
			m.askAgain()
			if m.stale {
				m.resynchronize("the last attempt failed")
			}
		case <-m.stop:
			m.push()
			return
		}
		m.commit()
	}
}

// take applies a batch, and gives its memory back.
func (m *Mirror) take(b *events) {
	defer func() {
		clear(b.buf[:b.n]) // of keys
		m.empty <- b
	}()
	if b.err != nil {
		m.resynchronize(b.err.Error())
		return
	}
	for rest := b.buf[:b.n]; len(rest) > 0; {
		msg, tail, err := rtnl.Next(rest)
		if err == nil {
			err = m.handle(msg)
		}
		switch {
		case errors.Is(err, errCompare):
			m.stale = true
		case err != nil: // it may have been about anything
			m.counts.malformed++
			m.log.Error("could not read an XFRM message", "err", err)
			m.stale = true
		}
		rest = tail
		m.counts.events++
	}
	if m.stale {
		m.resynchronize("events do not tell all")
	}
}

// synchronize compares the tables with Linux's: what is not in the dumps goes. Changes
// during the dumps come as events afterwards.
func (m *Mirror) synchronize() error {
	defer m.conn.Wipe()
	var d dump
	defer d.wipe()
	err := errors.Join(
		m.conn.Dump(rtnl.NewQuery(msgGetSA, nil), d.state),
		m.conn.Dump(rtnl.NewQuery(msgGetPolicy, nil), d.policy))
	if err != nil {
		return err
	}
	// Linux before 5.16 has no defaults: everything is accepted.
	err = m.conn.Do(msgGetDefault, 0, make([]byte, sizeofDefault), d.fallback)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	m.compare(&d)
	m.commit()
	return nil
}

// resynchronize tries, at every tick, until it succeeds.
func (m *Mirror) resynchronize(why string) {
	m.log.Warn("comparing all XFRM states and policies with Linux's", "because", why)
	m.counts.resyncs++
	err := m.synchronize()
	if m.stale = err != nil; m.stale {
		m.log.Error("could not compare XFRM states and policies with Linux's; trying again", "err", err)
	}
}
