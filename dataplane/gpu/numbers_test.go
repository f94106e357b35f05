package gpu

import (
	"encoding/binary"
	"maps"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// lendingOnHost is securedOnHost with a device that numbers packets.
func lendingOnHost(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
	t.Helper()
	s, sh := securedOnShim(t, net, g, 3900, 2)
	e := s.engine
	shimTurn = func() uint32 { return sh.turns[0] }
	t.Cleanup(func() { shimTurn = nil })
	e.pool.take(nil, 0, 1, 0) // the lowest slot
	e.lender = newLender(e.state, e.mailbox, e.pool, Options{Timeout: 1 << 40})
	e.lender.posted = func(s *slot, n int) {
		for i := range n {
			sh.in[i], sh.deviceJobs[i] = posted(s, i), s.jobs[i]
		}
		sh.process(s, n, numbersFlag)
		copy(s.results, sh.out[:n])
		s.report()
	}
	e.lender.start()
	return s
}

// shimTurn returns the word of the worker's turns, nil on a GPU.
var shimTurn func() uint32

// numbersOf collects the sequence numbers of transmitted packets by SPI, in their order.
type numbersOf struct {
	*testing.T
	last map[uint32]uint32 // of earlier chunks
	any  bool              // within a chunk, the order may be any: loans end while packets are numbered
	n    int
}

// check checks the numbers of a chunk: those of an SA are behind all earlier ones. Packets that the host has numbered are
// behind the others of the chunk, in any order, as those that were decrypted before are behind others.
func (x *numbersOf) check(mem []byte, c *batch.Chunk, byHost func(i int) bool) {
	x.Helper()
	next, host := map[uint32]uint32{}, map[uint64]bool{}
	for _, last := range []bool{false, true} {
		before := maps.Clone(x.last)
		if !x.any {
			maps.Copy(before, next)
		}
		for i, f := range c.In[:c.N] {
			spi, at, is := ipsec.Inbound(mem[f.Addr+packet.EthernetLen:][:f.Len-packet.EthernetLen])
			if !is || c.Out[i].Verdict.Action() != batch.ActionForward || byHost(i) != last {
				continue
			}
			seq := binary.BigEndian.Uint32(mem[int(f.Addr)+packet.EthernetLen+at+4:])
			if low, ok := before[spi]; ok && int32(seq-low) <= 0 || host[uint64(spi)<<32|uint64(seq)] {
				x.Errorf("packet %d, SPI %#x, by the host %v: number %d after %d", i, spi, last, seq, low)
			}
			if old, ok := next[spi]; !ok || int32(seq-old) > 0 {
				next[spi] = seq
			}
			if last || x.any {
				host[uint64(spi)<<32|uint64(seq)] = true
			} else {
				before[spi] = seq
			}
			x.n++
		}
	}
	for spi, seq := range next {
		x.last[spi] = seq
	}
}

// TestNumberedPacketsAgreeWithTheCPUEngine: packets of all kinds of SAs, with others in between; now and then, all loans
// end, or the host takes numbers itself.
func TestNumberedPacketsAgreeWithTheCPUEngine(t *testing.T) {
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	agreeOnNumbered(t, lendingOnHost, rounds)
}

func agreeOnNumbered(t *testing.T, maker securedMaker, rounds int) {
	t.Helper()
	w := newSecuredTwins(t, maker, 11)
	e := w.gpu.engine
	e.shadow, e.finding, e.expected = nil, findMode{fixed: true}, expectation{fixed: true}
	e.lender.since = 1 << 60 // loans do not end by themselves
	w.gaps = true
	numbers := &numbersOf{T: t, last: map[uint32]uint32{}}
	byDevice, byHost := 0, 0
	for n := range rounds {
		others := w.rnd.IntN(4) == 0
		e.numbering = numbering{turn: e.numbering.turn, launches: e.numbering.launches, seen: numberAfter, off: n%16 == 15}
		w.run(func() []byte {
			if others && w.rnd.IntN(8) == 0 {
				return w.next()
			}
			return w.clear(w.rnd.IntN(2) == 0, 9, outPort+w.rnd.IntN(len(w.all)))
		})
		jobs := e.ipsec.free[len(e.ipsec.free)-1][:w.chunks[1].N]
		numbers.check(w.gpu.umem, w.chunks[1], func(i int) bool {
			host := jobs[i].Kind != esp.Decided
			if host {
				byHost++
			} else {
				byDevice++
			}
			return host
		})
		if turn := e.numbering.turn; shimTurn != nil && shimTurn() != turn<<1 {
			t.Fatalf("after turn %d, the word of the worker's turns is %#x: it was not passed on", turn, shimTurn())
		}
		if n%24 == 23 {
			e.lender.end()
			e.lender.start()
		}
	}
	for _, a := range w.all {
		if got, want := a.out[1].Stats(), a.out[0].Stats(); got != want {
			t.Errorf("%s: %+v, the CPU engine %+v", a.Name, got, want)
		}
	}
	if t.Logf("%d numbers checked; %d packets by the device, %d by the host, %d SAs lent", numbers.n, byDevice, byHost, len(e.lender.sas)); byDevice < 20*rounds || byHost < 5*rounds {
		t.Error("too few of a kind")
	}
}

// submitNumbered submits chunk k of the rig for the device to number.
func (r *passesRig) submitNumbered(k int) *flight {
	if r.e.lender == nil {
		m, pool := newTestMailbox(r.T, 1, 28)
		r.e.lender = newLender(r.e.state, m, pool, Options{Timeout: 1 << 40})
		r.e.lender.posted = func(s *slot, n int) { s.report() }
		r.e.lender.ready.Store(true)
		r.e.lender.start()
	}
	r.e.numbering.seen = numberAfter
	return r.submitWith(k, findMode{fixed: true}, findMode{fixed: true})
}

// number finishes a chunk's pass: the device has numbered and sealed the packets for which host is false.
func (r *passesRig) number(f *flight, host func(i int) bool) {
	f.expected = esp.Expected{First: 1}
	r.answer(f, host)
	f.expected = esp.Expected{}
}

// TestNumberedChunksKeepTheirTurn: of the next chunks, until the host has posted the packets that the device left to it.
func TestNumberedChunksKeepTheirTurn(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	words := func(f *flight, k int) [3]uint32 {
		s := &r.e.mailbox.slots[f.slots[k]]
		return [3]uint32{uint32(s.descriptors[0] >> 32 & (numbersFlag | classifyFlag | hasJobsFlag)), uint32(s.descriptors[cacheLineWords] >> 32), uint32(s.descriptors[2*cacheLineWords] >> 32)}
	}
	turn := uint32(0)
	for k := range r.chunks {
		f := r.submitNumbered(k)
		for tile := range f.tiles {
			want := [3]uint32{numbersFlag | classifyFlag, turn, 0}
			if tile == 0 {
				want[2] = 1
			}
			if got := words(f, tile); got != want {
				t.Fatalf("chunk %d, tile %d: %#x, want %#x", k, tile, got, want)
			}
			turn += uint32(r.e.mailbox.slots[f.slots[tile]].batches)
		}
		if f.turn != turn {
			t.Fatalf("chunk %d ends before turn %d, want %d", k, f.turn, turn)
		}
	}
	first := &r.e.inFlight[0]
	r.number(first, func(i int) bool { return i == 5 })
	if r.e.Done(r.chunks[0]); first.pass != lastPass {
		t.Fatalf("pass %d", first.pass)
	}
	if got, want := words(first, 0), [3]uint32{numbersFlag | hasJobsFlag, first.turn, 0}; got != want {
		t.Errorf("the second pass: %#x, want %#x", got, want)
	}
	for k, job := range first.jobs {
		if (job.Kind == esp.Seal) != (k == 5) {
			t.Errorf("packet %d: %+v", k, job)
		}
	}
	r.finish(first, batch.Result{})
	r.number(&r.e.inFlight[1], none)
	for k := range 2 {
		if !r.e.Done(r.chunks[k]) {
			t.Fatalf("chunk %d is not done", k)
		}
	}
	if stats := r.sa.Stats(); stats.Packets != 32 || stats.Bytes != 32*128 {
		t.Errorf("%+v after 32 packets of 128 bytes", stats)
	}
}

// TestImpossibleResultsOfNumberedPacketsAreRefused: the device forwards another length, another address, or nothing.
func TestImpossibleResultsOfNumberedPacketsAreRefused(t *testing.T) {
	refusesImpossibleResults(t, func(r *passesRig) *flight {
		f := r.submitNumbered(0)
		r.number(f, none)
		return f
	})
}

// TestNumberedChunksAllocateNothing beside what the test itself allocates for its packets.
func TestNumberedChunksAllocateNothing(t *testing.T) {
	r := newPassesRig(t, 2, 1)
	run := func() {
		f := r.submitNumbered(0)
		r.number(f, none)
		if !r.e.Done(r.chunks[0]) || r.chunks[0].Out[3].Verdict != batch.Forward(1) {
			t.Fatal("the chunk is not done")
		}
	}
	packets := testing.AllocsPerRun(1, func() { // what the test itself allocates
		testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 100)...)
	})
	run()
	if n := testing.AllocsPerRun(20, run); n > 16*packets {
		t.Errorf("a chunk allocates %v times, its 16 packets in the test %v times each", n, packets)
	}
}
