// Package xfrm synchronizes an IPsec gateway with the XFRM states and policies of Linux.
//
// Key daemons install the SAs that they negotiate as XFRM states. The mirror copies them, so
// an unmodified strongSwan (or `ip xfrm`) controls the gateway and does not notice that
// packets bypass Linux.
//
//	events ─► batch ─► states   ─► gateway.Add, Remove      (at once)
//	dumps  ─►          policies ─► gateway.SetRules         (once per batch)
//	counters, sequence numbers, soft and hard expiry ◄─ every second ─► Linux
//
// One goroutine owns all of it and is the only writer of the gateway. After lost events,
// everything is compared with a dump.
//
// States become SAs. Before 6.10 Linux keeps no direction with a state: it follows from which
// outer address is local, or else from the policy that names the state. Of the outbound SAs of
// a tunnel, the one with the SPI in the policy's template is used, else the newest. Inbound SAs
// are all used until they are deleted. IKE daemons rekey without loss this way: they install
// the new SAs, change the policies when the peer has its own, and then delete the old ones.
//
// Policies become rules, by priority and then age. Linux has three directions: out; in, for
// packets to the router; and fwd, for forwarded packets. Here fwd and in are both inbound
// rules, merged where equal, because key daemons install them in pairs. An in policy that
// permits packets comes after all fwd policies, so it permits nothing that they block.
//
// Guarantees:
//   - Fail closed. Packets protected by a state that is refused, missing or deleted are
//     dropped. An unsupported policy drops all packets that it could match. Refusals are logged
//     with the reason.
//   - No sequence number is used twice with a key. A state that is installed again (NAT
//     mappings, MOBIKE, manual changes) continues after its predecessor's last number, which
//     Linux does not know; after a restart, far beyond it, provided that fewer than restartGap
//     packets were sent since the last report to Linux. See memory and restartGap.
//   - Keys are wiped from buffers after parsing, and with an SA when no worker can use it.
//
// Differences from Linux:
//   - The SPI of a template applies to all policies of its tunnel. While no state has it, the
//     newest is used. The algorithms that a template permits are ignored.
//   - An ACQUIRE has the policy's selector, not the packet's addresses. No packet is queued for
//     it: packets are dropped until the state is installed.
//   - A replay window below minWindow is widened: parallel workers reorder more packets than
//     one CPU does.
//   - IVs start at a random number of the process; those of Linux at one of the state. Sequence
//     numbers of a manually configured key that is installed again while the router is down
//     start again: Linux knows the use of a key with its state, the mirror while it runs.
//   - Packets that Linux itself sends or receives by these states bypass the gateway. Its
//     sequence numbers and the gateway's are kept from falling behind each other, but the peer
//     may take some packets for replays.
package xfrm

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Hooks connect the mirror with the router. Any may be nil.
type Hooks struct {
	// IsLocal reports whether an address is local. It is called on the mirror's goroutine,
	// during Start on the caller's.
	IsLocal func(netip.Addr) bool
	// Quiescent calls f, on any goroutine, once every worker has finished its current batch.
	// Keys of deleted SAs stay until then. Without the hook f is called at once, for a gateway
	// without workers.
	Quiescent func(f func())
	// Changed reports a change of the gateway, once per batch.
	Changed func()
}

// Mirror is a running mirror.
type Mirror struct {
	*tables
	loop *rtnl.Loop
	conn *rtnl.Conn // dumps and requests

	acquired map[uint32]time.Time // time of the last ACQUIRE, by tunnel

	passive  bool // another process uses the SAs, see handover.go
	stale    bool // a resync is due
	acquires int  // ACQUIREs sent
}

const interval = time.Second // of reporting SA use to Linux

// receiveBuffer is the size of the event socket's buffer in bytes. Tests reduce it.
var receiveBuffer = 32 << 20

// Start synchronizes g with the XFRM databases of the calling thread's network namespace until
// Close. workers is the argument of ipsec.NewSA. The mirror is the only writer of g. A nil log
// discards messages.
func Start(g *gateway.Gateway, workers int, hooks Hooks, log *slog.Logger) (*Mirror, error) {
	return start(g, workers, hooks, log, false)
}

func start(g *gateway.Gateway, workers int, hooks Hooks, log *slog.Logger, passive bool) (_ *Mirror, err error) {
	m := &Mirror{tables: newTables(g, workers, hooks, log), acquired: map[uint32]time.Time{}, passive: passive}
	g.Missing = make(chan uint32, 64)
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	// The event socket is first, so that changes during the dump are queued.
	if m.loop, err = rtnl.OpenLoop(unix.NETLINK_XFRM, receiveBuffer, groupExpire, groupSA, groupPolicy, groupMigrate); err != nil {
		return nil, fmt.Errorf("subscribe to XFRM events: %w", err)
	}
	if m.conn, err = rtnl.DialFamily(unix.NETLINK_XFRM); err != nil {
		return nil, fmt.Errorf("connect to XFRM: %w", err)
	}
	if !passive {
		m.gap = restartGap
	}
	if err := m.synchronize(); err != nil {
		return nil, fmt.Errorf("read XFRM states and policies: %w", err)
	}
	m.gap = 0
	if !passive {
		if err := m.pushGaps(); err != nil {
			return nil, err
		}
	}
	m.loop.Start(m.run)
	return m, nil
}

// Close reports SA use to Linux once more and stops the mirror. The gateway keeps its content.
func (m *Mirror) Close() error {
	var errs []error
	if m.loop != nil {
		errs = append(errs, m.loop.Close())
	}
	if m.conn != nil {
		m.conn.Wipe()
		errs = append(errs, m.conn.Close())
	}
	return errors.Join(errs...)
}

// Do runs f on the goroutine that writes the gateway, as gateway.All requires. It reports
// false, without running f, after Close.
func (m *Mirror) Do(f func()) bool { return m.loop.Do(f) }

// run is the mirror's goroutine.
func (m *Mirror) run() {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case b := <-m.loop.Events:
			m.apply(b)
		case f := <-m.loop.Calls:
			f()
		case <-m.quiesced.wake:
		case tunnel := <-m.gateway.Missing:
			m.acquire(tunnel)
		case <-tick.C:
			m.push()
			m.installDecided()
			m.expireAcquires()
			if m.stale {
				m.resynchronize("retry")
			}
		case <-m.loop.Done:
			m.push()
			return
		}
		m.commit()
	}
}

// apply applies a batch of events.
func (m *Mirror) apply(b *rtnl.Batch) {
	err := m.loop.Apply(b, func(msg rtnl.Message) error {
		err := m.handle(msg)
		if errors.Is(err, errCompare) {
			m.stale = true
			return nil
		}
		return err
	}, func(err error) {
		m.stale = true // it could have been about anything
		m.log.Error("malformed XFRM message", "err", err)
	})
	switch {
	case err != nil:
		m.resynchronize(err.Error())
	case m.stale:
		m.resynchronize("events are incomplete")
	}
}

// synchronize compares the tables with Linux by mark and sweep. Changes during the dumps
// follow as events.
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
	// Linux before 5.16 has no defaults: it accepts all packets.
	err = m.conn.Do(msgGetDefault, 0, make([]byte, sizeofDefault), d.fallback)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	m.compare(&d)
	m.commit()
	return nil
}

// resynchronize compares all with Linux, and retries every interval until it succeeds.
func (m *Mirror) resynchronize(reason string) {
	m.log.Warn("resyncing all XFRM states and policies", "reason", reason)
	m.loop.Stats().Resyncs++
	err := m.synchronize()
	if m.stale = err != nil; m.stale {
		m.log.Error("xfrm resync failed, retrying", "err", err)
	}
}
