package gpu

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
)

// lender lends sequence numbers of outbound SAs to a device, which then seals packets of many SAs in one pass
// (kernel/seq_assign.h). It changes the device's numbers by requests to a block that no worker takes, so they wait for no chunk. Requests
// are rare: at the start, for new SAs, for more numbers, for packets to which the host assigns numbers, and when an SA ends.
//
// With several devices, the numbers are in the memory of one, and the kernels of the others take them there (seq_home.go).
//
// If the device does not answer, the host continues after all lent numbers.
type lender struct {
	state   *deviceState
	mailbox *mailbox
	slot    *slot                // of the last requests
	batches int                  // of a tile
	limit   time.Duration        // for a request; then its SAs continue without the device
	fakeGPU func(s *slot, n int) // answers n requests in place of a GPU (tests); nil with one

	mu     sync.Mutex
	open   bool // the kernel runs
	lost   bool // a request was not answered; the slot may be in use
	stale  []request
	ready  atomic.Bool // no loan is stale, and lendTunnels has passed the last tunnel
	frames []batch.Frame
	ending []*ipsec.SA // by a review
	sas    map[*ipsec.SA]*lentSA
	order  []*ipsec.SA
	next   int // in order, to review

	nextTunnel uint32 // with which the next call of lendTunnels begins

	// How the loans are used; see weigh.
	weighEvery  time.Duration // weighTime, except in tests
	since       time.Duration
	taken       int
	assigned    atomic.Int64  // sequence numbers by the device
	pausedUntil atomic.Int64  // no loans before, by batch.Clock
	revoked     atomic.Uint32 // how often all numbers were given up
	lostAt      time.Duration // when the device was lost last, and the pause after it
	pause       time.Duration
	shortest    time.Duration // such pause

	reviewed time.Duration
	due      atomic.Int64 // of the next review

	// Chunks that had begun when a loan ended. Nothing is lent for their key or tunnel before they are drained.
	keyUsers    map[uint32][]chunkCounter // by key: they may use it
	tunnelUsers map[uint32][]chunkCounter // by tunnel: the host may yet take numbers of the tunnel's next SA for their packets
	users       engineList                // that take these numbers
}

// outbound is what a worker knows of SAs: see esp.Stage.
type outbound interface {
	Longest(s *ipsec.SA) int
	Leaves(s *ipsec.SA) bool
	MayLend(s *ipsec.SA, keys uint32) bool
	TunnelLimit() uint32
	Current(tunnel uint32) *ipsec.SA
}

// lentSA is an SA whose numbers are lent.
type lentSA struct {
	longest int // packet in bytes that the device may seal
	key     uint32
	next    uint64 // the device has used all numbers before
}

const (
	minLendBlocks = 8 // that a device must have to get loans

	// lentSeqs is how many numbers are lent at once, and added when few are left. With a device, the rest of a loan and of one addition
	// is lost.
	lentSeqs = 1 << 19

	lendPause    = 500 * time.Millisecond // without loans, after a loss, and after weigh has ended all
	maxLendPause = time.Minute
)

// newLender returns the lender of a device, with the first block of a pool that is not open yet.
func newLender(state *deviceState, m *mailbox, p *blockPool, o Options) *lender {
	p.keep(1)
	return &lender{
		state: state, mailbox: m, slot: &m.slots[0], batches: m.batches, limit: max(o.Timeout, o.Limit), shortest: lendPause, weighEvery: weighTime, sas: map[*ipsec.SA]*lentSA{},
		keyUsers: map[uint32][]chunkCounter{}, tunnelUsers: map[uint32][]chunkCounter{},
	}
}

// usable reports whether the device takes requests.
func (l *lender) usable() bool {
	if !l.open || !l.state.ok() {
		return false
	}
	l.lost = l.lost && !l.slot.finished()
	return !l.lost
}

// paused reports whether there are no loans for a while, or for good, as the device has failed.
func (l *lender) paused() bool {
	return !l.state.ok() || batch.Clock() < time.Duration(l.pausedUntil.Load())
}

// start permits loans: the kernel runs.
func (l *lender) start() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = true
	}
}

// end ends all loans, and permits none until start. The kernel still runs.
func (l *lender) end() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.endLoans(l.order)
		l.restart()
		l.open = false
	}
}

// ensureReady makes the device ready to assign sequence numbers, and reports whether it is. After revoke, it asks the device to end
// the loans of that time, and waits for the answers. Then each call lends the numbers of up to tunnelsAtOnce tunnels, until
// all tunnels have been processed.
func (l *lender) ensureReady(by outbound) bool {
	if l.ready.Load() {
		return true
	}
	if !l.mu.TryLock() {
		return false
	}
	defer l.mu.Unlock()
	if !l.usable() || l.paused() {
		return false
	}
	if _, ok := l.ask(l.stale, nil); !ok {
		return false
	}
	l.stale = l.stale[:0]
	ready := l.lendTunnels(by)
	l.ready.Store(ready)
	return ready
}

// restart makes ensureReady begin with the first tunnel again: there are no loans.
func (l *lender) restart() {
	l.ready.Store(false)
	l.nextTunnel = 0
}

// Reclaim implements ipsec.Lender.
func (l *lender) Reclaim(s *ipsec.SA) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLoans([]*ipsec.SA{s})
}

// endLoans ends the loans of SAs: it asks the device for the first number that is not assigned, with which the host continues. If the
// device does not answer, the host gives up the numbers of all loans (revoke). SAs without a loan are ignored.
func (l *lender) endLoans(sas []*ipsec.SA) {
	var all []request
	var of []*ipsec.SA
	for _, s := range sas {
		if x := l.sas[s]; x != nil {
			all = append(all, request{what: requestRetire, key: x.key, tunnel: uint16(s.Tunnel())})
			of = append(of, s)
		}
	}
	if len(all) == 0 {
		return
	}
	next, ok := l.ask(all, nil)
	for i, s := range of {
		ok = ok && l.plausible(l.sas[s], next[i], seqsRetired-1)
	}
	if !ok {
		l.revoke()
		return
	}
	used := l.users.counters()
	for i, s := range of {
		l.keyUsers[l.sas[s].key], l.tunnelUsers[s.Tunnel()] = used, used
		delete(l.sas, s)
		s.Return(next[i])
	}
	l.order = slices.DeleteFunc(l.order, func(s *ipsec.SA) bool { return l.sas[s] == nil })
}

// plausible reports whether a number can be the next one of an SA, which is at most last. If not, the device is taken out of
// use.
func (l *lender) plausible(x *lentSA, number, last uint64) bool {
	if number >= x.next && number <= last {
		return true
	}
	l.state.fail(&failure{CauseBadResult, fmt.Sprintf("impossible GPU result: sequence number %#x, expected %#x to %#x", number, x.next, last)})
	return false
}

// revoke gives all lent numbers up: the device is lost. A device that answers again may still use these numbers; acceptAssigned
// discards such packets, as the host has sent higher numbers since.
// Each loss costs all of them, so the pause after it grows if they follow each other.
func (l *lender) revoke() {
	l.restart()
	l.revoked.Add(1)
	if now := batch.Clock(); l.pause == 0 || now-l.lostAt > 2*maxLendPause {
		l.pause, l.lostAt = l.shortest, now
	} else {
		l.pause, l.lostAt = min(2*l.pause, maxLendPause), now
	}
	l.pausedUntil.Store(int64(l.lostAt + l.pause))
	used := l.users.counters()
	for s, x := range l.sas {
		l.keyUsers[x.key], l.tunnelUsers[s.Tunnel()] = used, used
		l.stale = append(l.stale, request{what: requestRetire, key: x.key, tunnel: uint16(s.Tunnel())})
		s.Revoke()
	}
	clear(l.sas)
	l.order = l.order[:0]
}

// Take implements ipsec.Lender.
func (l *lender) Take(all []ipsec.Taking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take(all)
	l.weigh()
}

func (l *lender) take(all []ipsec.Taking) {
	var asked []request
	var of []*ipsec.Taking
	for i := range all {
		if x := l.sas[all[i].SA]; x != nil {
			asked = append(asked, request{what: requestTake, key: x.key, count: uint32(all[i].N)})
			of = append(of, &all[i])
			l.taken += int(all[i].N)
		}
	}
	if len(asked) == 0 {
		return
	}
	first, ok := l.ask(asked, nil)
	if !ok {
		l.revoke()
		return
	}
	var empty []*ipsec.SA
	for i, t := range of {
		x := l.sas[t.SA]
		switch n := first[i]; {
		case n >= seqsRetired: // none is left: the host takes the rest back, and continues after it
			empty = append(empty, t.SA)
		case !l.plausible(x, n, t.SA.LastSequence()+1-t.N):
			l.revoke()
			return
		default:
			x.next = n + t.N
			t.Got(n)
		}
	}
	l.endLoans(empty)
}
