package gpu

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

// lenderRig is a lender whose device is in Go: it serves requests as kernel/seq_assign.h does, and assigns sequence numbers.
type lenderRig struct {
	*testing.T
	l       *lender
	sas     []*ipsec.SA
	next    []atomic.Uint64 // by key
	last    []atomic.Uint64
	tunnels []atomic.Uint64 // key + 1
	used    []sync.Map      // numbers of an SA
	n       atomic.Int64
	lose    atomic.Int32 // the device does not answer the next request (1), or the one after it (2)
	late    chan func()  // requests that it has not answered
}

func newLenderRig(t *testing.T, sas int) *lenderRig {
	t.Helper()
	mailbox, pool := newTestMailbox(t, 2, maxChunk)
	pool.take(nil, blockRequest{n: 1})
	r := &lenderRig{
		T: t, l: newLender(&deviceState{}, mailbox, pool, Options{}), next: make([]atomic.Uint64, sas), last: make([]atomic.Uint64, sas),
		tunnels: make([]atomic.Uint64, sas), used: make([]sync.Map, sas), late: make(chan func(), 1),
	}
	r.l.weighEvery, r.l.shortest = 1<<60, 0 // loans do not end by themselves, and there is no pause after a loss
	for i := range sas {
		c := ipsec.Config{Name: "sa", SPI: 256 + uint32(i), Tunnel: uint32(i), Suite: "aes128gcm16", Key: make([]byte, 20), Src: ours4, Dst: far4, Mode: ipsec.Tunnel, ESN: i%2 == 1}
		s, err := ipsec.NewSA(c, 4)
		require.NoError(t, err)
		s.SetKeyIndex(uint32(i), nil)
		r.sas = append(r.sas, s)
	}
	r.l.fakeGPU = func(s *slot, n int) {
		var counts []uint32
		for i := range n {
			counts = append(counts, posted(s, i).Addr)
		}
		seq, batches := s.number, s.batches
		serve := func() {
			for i := range n {
				s.answers()[i] = r.serve(s.requests()[i], counts[i])
			}
			for i := range batches {
				atomic.StoreUint32(&s.done[i], seq)
			}
		}
		if r.lose.Load() > 0 && r.lose.Add(-1) == 0 {
			r.late <- serve
			return
		}
		serve()
	}
	r.l.start()
	r.l.ready.Store(true)
	return r
}

// serve is serve_request.
func (r *lenderRig) serve(q seqRequest, count uint32) (old uint64) {
	number := uint64(q.SeqHigh)<<32 | uint64(q.SeqLow)
	switch q.What {
	case requestLend:
		r.next[q.Key].Store(seqsRetired)
		r.last[q.Key].Store(number)
		r.next[q.Key].Store(number - uint64(count) + 1)
		r.tunnels[q.Tunnel].Store(uint64(q.Key) + 1)
	case requestExtend:
		r.last[q.Key].Store(number)
	case requestTake:
		last := r.last[q.Key].Load()
		if old = r.next[q.Key].Add(uint64(count)) - uint64(count); last == 0 || old+uint64(count)-1 > last {
			old |= seqsRetired
		}
	case requestRetire:
		r.tunnels[q.Tunnel].CompareAndSwap(uint64(q.Key)+1, 0)
		old = r.next[q.Key].Swap(seqsRetired)
	}
	return old
}

// assign assigns sequence numbers to packets of an SA on the device.
func (r *lenderRig) assign(tunnel, n int) {
	key := r.tunnels[tunnel].Load()
	if key == 0 {
		return
	}
	last := r.last[key-1].Load()
	first := r.next[key-1].Add(uint64(n)) - uint64(n)
	for i := range uint64(n) {
		if first+i <= last {
			r.use(int(key-1), first+i)
		}
	}
}

func (r *lenderRig) use(sa int, number uint64) {
	if _, again := r.used[sa].LoadOrStore(number, nil); again {
		r.Errorf("SA %d: number %d is used twice", sa, number)
	}
	r.n.Add(1)
}

func (r *lenderRig) lend(sas ...*ipsec.SA) {
	if by := (&testOutbound{longest: 1400, leaves: true}); r.l.ensureReady(by) {
		r.l.lend(sas, by)
	}
}

// testOutbound says the same of all SAs. Those of tunnels can be lent ahead.
type testOutbound struct {
	longest int
	leaves  bool
	tunnels []*ipsec.SA
}

func (o *testOutbound) Longest(*ipsec.SA) int              { return o.longest }
func (o *testOutbound) Leaves(*ipsec.SA) bool              { return o.leaves }
func (o *testOutbound) MayLend(s *ipsec.SA, _ uint32) bool { return o.leaves && !s.Limited() }

func (o *testOutbound) TunnelLimit() uint32             { return uint32(len(o.tunnels)) }
func (o *testOutbound) Current(tunnel uint32) *ipsec.SA { return o.tunnels[tunnel] }

// TestNoNumberIsUsedTwice: while the device assigns numbers, the host takes numbers, one by one and for blocks of packets,
// lends more, and takes loans back; and the device is lost 1,000 times, and serves the request of that time later.
func TestNoNumberIsUsedTwice(t *testing.T) {
	losses := 1000
	if testing.Short() {
		losses = 100
	}
	r := newLenderRig(t, 8)
	var device, host sync.WaitGroup
	var done atomic.Bool
	each := func(group *sync.WaitGroup, seed uint64, do func(rnd *rand.Rand, sa int)) {
		group.Go(func() {
			for rnd := rand.New(rand.NewPCG(seed, 1)); !done.Load(); {
				do(rnd, rnd.IntN(len(r.sas)))
			}
		})
	}
	each(&device, 1, func(rnd *rand.Rand, sa int) { r.assign(sa, 1+rnd.IntN(28)); time.Sleep(time.Microsecond) })
	each(&device, 2, func(rnd *rand.Rand, sa int) { r.assign(sa, 1+rnd.IntN(28)); time.Sleep(time.Microsecond) })
	each(&host, 3, func(rnd *rand.Rand, sa int) {
		first, n := r.sas[sa].Reserve(1 + rnd.IntN(3))
		for i := range n {
			r.use(sa, first+uint64(i))
		}
		time.Sleep(time.Microsecond)
	})
	each(&host, 4, func(rnd *rand.Rand, sa int) {
		switch rnd.IntN(4) {
		case 0:
			r.l.extend(r.sas[sa])
		case 1:
			r.sas[sa].EndLoan()
		default:
			r.lend(r.sas[sa])
		}
		time.Sleep(time.Microsecond)
	})
	lost, lent := 0, 0
	for ; lost < losses && !t.Failed(); lost++ {
		for before := lent; lent == before; time.Sleep(time.Microsecond) {
			for _, s := range r.sas {
				if s.Lender() != nil {
					lent++
				}
			}
		}
		r.lose.Store(1)
		serve := <-r.late
		if lost%2 == 0 {
			time.Sleep(50 * time.Microsecond)
		}
		serve()
	}
	done.Store(true)
	host.Wait()
	device.Wait()
	r.l.end()
	for i, s := range r.sas {
		first, n := s.Reserve(1)
		if r.use(i, first); n != 1 || s.Lender() != nil {
			t.Errorf("SA %d: %d numbers after the end", i, n)
		}
	}
	if t.Logf("%d numbers, %d losses with %d loans", r.n.Load(), lost, lent); lost == losses && r.n.Load() < int64(losses) {
		t.Error("too few numbers")
	}
}

// TestHostTakesNumbersBehindTheDevices: of a lent SA, those that follow, and more when none is left; after the end of the
// loan, the rest.
func TestHostTakesNumbersBehindTheDevices(t *testing.T) {
	r := newLenderRig(t, 2)
	s := r.sas[0]
	s.Reserve(10)
	r.lend(s, r.sas[1])
	r.assign(0, 28)
	if first, n := s.Reserve(3); first != 39 || n != 3 {
		t.Errorf("%d numbers from %d on, after 10 of the host and 28 of the device", n, first)
	}
	s.Request(1, 5)
	r.sas[1].Request(1, 2)
	ipsec.ReserveRequested([]*ipsec.SA{s, r.sas[1], s}, 1)
	r.assign(0, 1)
	if first, _ := s.Reserve(1); first != 48 {
		t.Errorf("number %d after 41, 5 reserved ones and one of the device", first)
	}
	r.next[0].Store(lentSeqs + 9) // of the 10 + lentSeqs that it may use
	if first, n := s.Reserve(4); first != lentSeqs+11 && first != lentSeqs+13 || n != 4 || s.Lender() != nil {
		t.Errorf("%d numbers from %d on; lent %v", n, first, s.Lender() != nil)
	}
	r.lend(s)
	if s.Lender() == nil {
		t.Fatal("the SA is not lent again")
	}
	before := s.Sequence()
	if s.EndLoan(); s.Sequence() != before {
		t.Errorf("number %d at the end of the loan, %d before: the device has used none", s.Sequence(), before)
	}
}

// TestImpossibleAnswersTakeTheDeviceOutOfUse: the host continues behind all lent numbers.
func TestImpossibleAnswersTakeTheDeviceOutOfUse(t *testing.T) {
	for what, change := range map[string]func(r *lenderRig){
		"a used number": func(r *lenderRig) { r.next[0].Store(10) },
		"a number that is not lent": func(r *lenderRig) {
			r.next[0].Store(lentSeqs + 11)
			r.last[0].Store(1 << 40)
		},
		"none": func(r *lenderRig) {
			r.l.fakeGPU = func(s *slot, n int) {
				for i := range s.batches {
					atomic.StoreUint32(&s.done[i], s.number)
				}
			}
		},
	} {
		for _, end := range []bool{false, true} {
			r := newLenderRig(t, 1)
			s := r.sas[0]
			s.Reserve(10)
			r.lend(s)
			if change(r); end && what != "a number that is not lent" { // with these, packets find that none is left
				s.EndLoan()
			}
			if first, n := s.Reserve(1); first != lentSeqs+11 || n != 1 || s.Lender() != nil || r.l.state.ok() {
				t.Errorf("%s, end of the loan %v: number %d, %d of them; lent %v, device used %v", what, end, first, n, s.Lender() != nil, r.l.state.ok())
			}
		}
	}
}

// TestNextSAOfATunnelIsLentAfterChunksOfTheFirst: the host may yet take numbers of the next one for their packets.
func TestNextSAOfATunnelIsLentAfterChunksOfTheFirst(t *testing.T) {
	r := newLenderRig(t, 1)
	next, err := ipsec.NewSA(ipsec.Config{SPI: 1000, Suite: "aes128gcm16", Key: make([]byte, 20), Src: ours4, Dst: far4, Mode: ipsec.Tunnel}, 4)
	require.NoError(t, err)
	next.SetKeyIndex(7, nil)
	r.next, r.last = make([]atomic.Uint64, 8), make([]atomic.Uint64, 8)
	e := &Engine{}
	e.begun[1].Store(1)
	r.l.users.add(e)
	r.lend(r.sas[0])
	r.sas[0].EndLoan()
	if r.lend(next); next.Lender() != nil {
		t.Error("it is lent while chunks run that may have packets of the first")
	}
	e.ended[1].Store(1)
	if r.lend(next); next.Lender() == nil {
		t.Error("it is not lent afterwards")
	}
}

// TestLoansBesideAnAbandonedChunk: one that never ends, on a device that is lost, keeps no SA from being lent again.
func TestLoansBesideAnAbandonedChunk(t *testing.T) {
	r := newLenderRig(t, 1)
	e := &Engine{}
	e.begun[1].Store(1)
	e.ended[1].Store(1)
	e.lostNow.Store(1)
	r.l.users.add(e)
	r.lend(r.sas[0])
	r.sas[0].EndLoan()
	if r.lend(r.sas[0]); r.sas[0].Lender() == nil {
		t.Error("it is not lent again")
	}
}

// TestLossesPauseLoans: each costs the numbers that were lent, so the pauses grow.
func TestLossesPauseLoans(t *testing.T) {
	r := newLenderRig(t, 1)
	r.l.shortest = lendPause
	for _, want := range []time.Duration{lendPause, 2 * lendPause, 4 * lendPause} {
		r.lend(r.sas[0])
		r.lose.Store(1)
		r.sas[0].Reserve(1)
		(<-r.late)()
		if r.lend(r.sas[0]); r.l.pause != want || r.sas[0].Lender() != nil {
			t.Errorf("pause %v, want %v; lent again: %v", r.l.pause, want, r.sas[0].Lender() != nil)
		}
		r.l.pausedUntil.Store(0)
	}
}

// TestLostDeviceNumbersNothingUntilItAnswers: its old numbers are behind those of the host then.
func TestLostDeviceNumbersNothingUntilItAnswers(t *testing.T) {
	r := newLenderRig(t, 2)
	r.lend(r.sas...)
	r.lose.Store(1)
	if first, n := r.sas[0].Reserve(1); first != lentSeqs+1 || n != 1 || r.sas[1].Lender() != nil {
		t.Errorf("%d numbers from %d on after the loss; the other SA is lent: %v", n, first, r.sas[1].Lender() != nil)
	}
	if r.l.ensureReady(&testOutbound{}) {
		t.Error("the lost device may assign sequence numbers")
	}
	(<-r.late)()
	if !r.l.ensureReady(&testOutbound{}) || r.tunnels[0].Load() != 0 || r.tunnels[1].Load() != 0 {
		t.Error("the device still finds the SAs that were lent before it was lost")
	}
}
