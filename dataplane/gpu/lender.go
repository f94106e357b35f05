package gpu

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/ipsec"
)

// lender lends sequence numbers of outbound SAs to a device, which then seals packets of many SAs in one pass
// (kernel/numbers.h). It changes the device's numbers by requests in a slot of its own, which wait for no chunk. Requests
// are rare: for new SAs, for packets that the host numbers, and when an SA ends.
//
// If the device does not answer, the host continues behind all lent numbers.
type lender struct {
	state   *deviceState
	slot    *slot
	batches int           // of a tile
	limit   time.Duration // for a request; then its SAs continue without the device
	posted  func(s *slot, n int)

	mu     sync.Mutex
	open   bool // the kernel runs
	lost   bool // a request was not answered; the slot may be in use
	stale  []request
	ready  atomic.Bool // no loan is stale
	frames []batch.Frame
	sas    map[*ipsec.SA]*lentSA
	order  []*ipsec.SA
	next   int // in order, to look at

	// How the loans are used; see weigh.
	since    time.Duration
	taken    int
	numbered atomic.Int64
	paused   time.Duration // no loans until then

	retired map[uint32][]chunkCounter // by key: chunks that may use it
	chunks  func() []chunkCounter
	ended   func(before []chunkCounter) bool
}

// outbound is what a worker knows of SAs: see esp.Stage.
type outbound interface {
	Longest(s *ipsec.SA) int
	Leaves(s *ipsec.SA) bool
}

// lentSA is an SA whose numbers are lent.
type lentSA struct {
	longest int // packet in bytes that the device may seal
	key     uint32
}

const (
	minLendSlots = 8 // of a device that lends

	// lentNumbers is how many numbers are lent at once. So many are lost with a device.
	lentNumbers = 1 << 19

	weighTime = 100 * time.Millisecond
	lendPause = 500 * time.Millisecond
)

// newLender returns the lender of a device, with the first slot of a pool that is not open yet.
func newLender(state *deviceState, m *mailbox, p *slotPool, o Options) *lender {
	p.keep(1)
	return &lender{
		state: state, slot: &m.slots[0], batches: m.batches, limit: o.Timeout, sas: map[*ipsec.SA]*lentSA{},
		retired: map[uint32][]chunkCounter{}, chunks: func() []chunkCounter { return nil }, ended: func([]chunkCounter) bool { return true },
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

// start permits loans: the kernel runs.
func (l *lender) start() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = true
	}
}

// end takes all numbers back, and permits no loans until start. The kernel still runs.
func (l *lender) end() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.retire(l.order)
		l.open = false
	}
}

// lends reports whether the device may number packets. After it was lost, it first gives up the numbers of that time.
func (l *lender) lends() bool {
	if l.ready.Load() {
		return true
	}
	if !l.mu.TryLock() {
		return false
	}
	defer l.mu.Unlock()
	if !l.usable() {
		return false
	}
	if _, ok := l.ask(l.stale, nil); !ok {
		return false
	}
	l.stale = l.stale[:0]
	l.ready.Store(true)
	return true
}

// Retire implements ipsec.Lender.
func (l *lender) Retire(s *ipsec.SA) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retire([]*ipsec.SA{s})
}

// retire takes the numbers of SAs back, or gives them up. Others than lent ones are ignored.
func (l *lender) retire(sas []*ipsec.SA) {
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
	if !ok {
		l.revoke()
		return
	}
	used := l.chunks()
	for i, s := range of {
		l.retired[l.sas[s].key] = used
		delete(l.sas, s)
		s.Return(next[i])
	}
	l.order = slices.DeleteFunc(l.order, func(s *ipsec.SA) bool { return l.sas[s] == nil })
}

// revoke gives all lent numbers up: the device is lost. If it answers again, it still has them, which are too old then.
func (l *lender) revoke() {
	l.ready.Store(false)
	for s, x := range l.sas {
		l.retired[x.key] = l.chunks()
		l.stale = append(l.stale, request{what: requestRetire, key: x.key, tunnel: uint16(s.Tunnel())})
		s.Revoke()
	}
	clear(l.sas)
	l.order = l.order[:0]
}

// lend lends the numbers of SAs. An SA by which packets do not leave any more then has them back.
func (l *lender) lend(sas []*ipsec.SA, by outbound) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.usable() || !l.ready.Load() || batch.Clock() < l.paused {
		return
	}
	var all []request
	for _, s := range sas {
		key := s.KeyIndex()
		if s.Tunnel() >= maxTunnels || key >= maxKeys || !l.ended(l.retired[key]) { // the host may yet number packets of older chunks
			continue
		}
		delete(l.retired, key)
		first, last, ok := s.Lend(lentNumbers, l)
		if !ok {
			continue
		}
		x := &lentSA{longest: by.Longest(s), key: key}
		l.sas[s] = x
		l.order = append(l.order, s)
		all = append(all, request{what: requestLend, key: x.key, number: last, count: uint32(last - first + 1), tunnel: uint16(s.Tunnel()), longest: uint16(x.longest), esn: s.Extended()})
	}
	if _, ok := l.ask(all, nil); !ok {
		l.revoke()
		return
	}
	var ended []*ipsec.SA
	for _, s := range sas {
		if l.sas[s] != nil && !(s.Usable(ipsec.Out) == ipsec.OK && by.Leaves(s)) { // see ipsec.SA.EndLoan: it looks after the change
			ended = append(ended, s)
		}
	}
	l.retire(ended)
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
		if first[i] < numbersRetired {
			t.Got(first[i])
		} else {
			empty = append(empty, t.SA)
		}
	}
	l.retire(empty) // the host takes the rest back, and continues behind it
}

// extend lends more numbers of an SA, which the device has asked for.
func (l *lender) extend(s *ipsec.SA) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.sas[s]
	if x == nil {
		return
	}
	if last := s.Extend(lentNumbers); last != 0 {
		if _, ok := l.ask([]request{{what: requestExtend, key: x.key, number: last}}, nil); !ok {
			l.revoke()
		}
	}
}

// refresh records a chunk of packets that the device has numbered, and looks at one lent SA: its loan ends if it is not
// usable, not its tunnel's current one, or if its longest packet is another.
func (l *lender) refresh(packets int, by outbound) {
	l.numbered.Add(int64(packets))
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if l.weigh(); len(l.order) == 0 {
		return
	}
	l.next = (l.next + 1) % len(l.order)
	s := l.order[l.next]
	if x := l.sas[s]; s.Usable(ipsec.Out) != ipsec.OK || !by.Leaves(s) || by.Longest(s) != x.longest {
		l.retire([]*ipsec.SA{s})
	}
}

// weigh ends all loans for a while if the host takes many of the numbers itself, as each time costs it a request.
func (l *lender) weigh() {
	now := batch.Clock()
	if now-l.since < weighTime {
		return
	}
	if l.taken*4 > l.taken+int(l.numbered.Swap(0)) {
		l.retire(l.order)
		l.paused = now + lendPause
	}
	l.since, l.taken = now, 0
}
