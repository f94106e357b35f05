package gpu

import (
	"encoding/binary"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// agreeOnExpected runs chunks of packets of one SA through both engines, where the device expects them. Some chunks have
// other packets in between.
func agreeOnExpected(t *testing.T, maker securedMaker, rounds int) {
	t.Helper()
	w := newSecuredTwins(t, maker, 7)
	e := w.gpu.engine
	e.shadow, w.gaps = nil, true
	sealed, opened, rest := 0, 0, 0
	for n := range rounds * len(w.all) {
		a := w.all[n%len(w.all)]
		k, others, out := n%len(w.all), w.rnd.IntN(2) == 0, w.rnd.IntN(2) == 0
		e.traffic[0].expected = expectation{sa: a.in[1], fixed: true}
		if out {
			e.traffic[0].expected.sa = a.out[1]
		}
		e.othersShare = n / len(w.all) % 2 * othersShare
		expected := false
		fake := e.fakeGPU
		wrapped := func(f *flight) {
			expected = expected || f.passFlags&expectFlag != 0
			if fake != nil {
				fake(f)
			}
		}
		if fake != nil {
			e.fakeGPU = wrapped
		}
		w.run(func() []byte {
			switch {
			case others && w.rnd.IntN(10) == 0:
				return w.next()
			case !out:
				return w.inbound(k)
			}
			f := w.clear(w.rnd.IntN(2) == 0, 9, outPort+k)
			if w.rnd.IntN(8) == 0 { // as short as Ethernet's padding makes it
				f = append(f[:min(len(f), 42)], make([]byte, 18)...)
			}
			return f
		})
		e.fakeGPU = fake
		want := a.Mode == ipsec.Tunnel && (out || !a.ESN && !e.esp.HostDecrypts(a.in[1]))
		if fake != nil && expected != want {
			t.Fatalf("%s, out %v: expected by the device: %v", a.Name, out, expected)
		}
		if !want {
			continue
		}
		jobs := e.ipsec.free[len(e.ipsec.free)-1][:w.chunks[1].N]
		for i, r := range w.chunks[1].Out[:w.chunks[1].N] {
			switch job := &jobs[i]; {
			case r.Verdict.Action() != batch.ActionForward:
			case job.Seq != otherChunk && !job.SAByDevice || w.askew:
				rest++
			case out:
				sealed++
			default:
				opened++
			}
		}
		w.align(a)
	}
	if t.Logf("%d packets sealed, %d opened, %d by the host", sealed, opened, rest); sealed < 20*rounds || opened < 20*rounds || rest < 20*rounds {
		t.Error("too few of a kind")
	}
}

// align makes the CPU engine's SA continue with the sequence number of the GPU's, whose gaps it does not have.
func (w *securedTwins) align(a *association) {
	w.t.Helper()
	if got, want := a.out[1].Stats(), a.out[0].Stats(); got != want {
		w.t.Fatalf("%s: %+v, the CPU engine %+v", a.Name, got, want)
	}
	if a.out[1].Sequence() < a.out[0].Sequence() {
		w.t.Fatalf("%s: numbers up to %d, the CPU engine up to %d", a.Name, a.out[1].Sequence(), a.out[0].Sequence())
	}
	for _, b := range w.all {
		b.out[0].Skip(b.out[1].Sequence())
		b.out[1].Skip(b.out[0].Sequence())
	}
}

func TestExpectedSAAgreesWithTheCPUEngine(t *testing.T) {
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	agreeOnExpected(t, securedOnHost(3900), rounds)
}

// submitExpected submits chunk k of the rig for its SA.
func (r *passesRig) submitExpected(k int) *flight {
	r.e.traffic[0].expected = expectation{sa: r.sa, fixed: true}
	return r.submit(k, true)
}

// answer finishes a chunk's pass for the expected SA: the device has sealed the packets for which host is false.
func (r *passesRig) answer(f *flight, host func(i int) bool) {
	for k := range f.tiles {
		r.answerTile(f, k, host)
	}
}

// answerTile is answer for tile k.
func (r *passesRig) answerTile(f *flight, k int, host func(i int) bool) {
	s := &r.e.mailbox.slots[f.slots[k]]
	for i := f.tileStart(k); i < f.tileStart(k+1); i++ {
		in, at := f.chunk.In[i], i-f.tileStart(k)
		if s.results[at] = forHost; !host(i) {
			size := int(in.Len) - packet.EthernetLen
			front, head := r.sa.HeaderLens()
			s.saReports()[at] = esp.SAReport(size)<<32 | esp.SAReport(r.sa.KeyIndex())
			spi := r.mem[int(in.Addr)+packet.EthernetLen-head:]
			binary.BigEndian.PutUint32(spi, r.sa.Config().SPI)
			binary.BigEndian.PutUint32(spi[4:], uint32(f.expected.First)+uint32(i))
			s.results[at] = batch.ForwardTo(1, in.Addr-uint32(front), uint16(packet.EthernetLen+front-head+r.sa.ESPLen(size)))
		}
	}
	s.report()
}

func none(int) bool { return false }

// TestPacketsOfTheExpectedSAHaveOnePass: their numbers are reserved when the chunk is posted.
func TestPacketsOfTheExpectedSAHaveOnePass(t *testing.T) {
	r := newPassesRig(t, 4, 2)
	for k := range r.chunks {
		if f := r.submitExpected(k); f.pass != firstPass || f.passFlags != expectFlag || f.expected.First != uint64(k*16+1) || r.sa.Sequence() != uint64(k*16+16) {
			t.Fatalf("chunk %d: pass %d, flags %#x, number %d, reserved up to %d", k, f.pass, f.passFlags, f.expected.First, r.sa.Sequence())
		}
	}
	for i := range r.e.inFlight {
		r.answer(&r.e.inFlight[i], none)
	}
	for k, c := range r.chunks {
		if !r.e.Done(c) || c.Out[3].Verdict != batch.Forward(1) || c.In[3].Addr != c.Out[3].Addr() || c.In[3].Len != c.Out[3].Len() {
			t.Fatalf("chunk %d: %v for %+v", k, c.Out[3], c.In[3])
		}
	}
	if stats := r.sa.Stats(); stats.Packets != 32 || stats.Bytes != 32*128 || busy(r.e) != 0 {
		t.Errorf("%+v after 32 packets of 128 bytes; busy slots %b", stats, busy(r.e))
	}
}

// TestOtherPacketsHaveTheirReservedNumbers: a packet that the device leaves to the host leaves between its neighbors, with
// the number between theirs.
func TestOtherPacketsHaveTheirReservedNumbers(t *testing.T) {
	for _, classified := range []bool{false, true} {
		r := newPassesRig(t, 4, 2)
		first, c := r.submitExpected(0), r.chunks[0]
		r.submitExpected(1)
		r.answer(&r.e.inFlight[0], func(i int) bool { return i%5 == 2 })
		if s := &r.e.mailbox.slots[first.slots[0]]; classified {
			s.results[2] = protect(r.sa.Tunnel(), c.In[2])
		}
		if r.e.Done(c) || first.pass != lastPass {
			t.Fatalf("pass %d", first.pass)
		}
		for i, job := range first.jobs {
			if host := i%5 == 2; (job.Seq == uint64(i+1)) != host && host || job.Unread != (classified && i == 2) {
				t.Errorf("packet %d: %+v", i, job)
			}
		}
		if r.sa.Sequence() != 32 {
			t.Errorf("numbers up to %d are reserved for 32 packets", r.sa.Sequence())
		}
		for i, job := range first.jobs {
			if s := &r.e.mailbox.slots[first.slots[0]]; i%5 == 2 {
				r.e.checker.icvEnd(c.In[i], &job)[0]++
				s.results[i] = batch.ForwardTo(1, c.In[i].Addr, c.In[i].Len)
			}
		}
		for k := range first.tiles {
			r.e.mailbox.slots[first.slots[k]].report()
		}
		if !r.e.Done(c) {
			t.Fatal("the chunk is not done")
		}
		for i, out := range c.Out[:c.N] {
			if out.Verdict != batch.Forward(1) {
				t.Errorf("packet %d: %v", i, out.Verdict)
			}
		}
	}
}

// TestOlderChunksHaveNumbersFirst: a chunk is not posted for an SA while the numbers of an older one follow.
func TestOlderChunksHaveNumbersFirst(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	r.submit(0, true)
	if f := r.submitExpected(1); f.expected.SA != nil || r.sa.Sequence() != 0 {
		t.Fatal("numbers were reserved before those of an older chunk")
	}
	for i := range 2 {
		r.finish(&r.e.inFlight[i], forHost)
	}
	if f := r.submitExpected(2); f.expected.First != 33 {
		t.Errorf("the first number is %d, behind 32 packets", f.expected.First)
	}
}

// impossibleResults change the result of packet 3 to one that a device cannot have.
var impossibleResults = map[string]func(s *slot){
	"no result":       func(s *slot) { s.results[3] = batch.Result{} },
	"no length":       func(s *slot) { s.saReports()[3] = 0 },
	"too long":        func(s *slot) { s.saReports()[3] += 1 << 32 },
	"another key":     func(s *slot) { s.saReports()[3]++ },
	"another address": func(s *slot) { s.results[3] = batch.ForwardTo(1, s.results[3].Addr()+4, s.results[3].Len()) },
	"another frame": func(s *slot) {
		s.results[3] = batch.ForwardTo(1, s.results[3].Addr()+umem.FrameSize, s.results[3].Len())
	},
	"another port": func(s *slot) { s.results[3] = batch.ForwardTo(3000, s.results[3].Addr(), s.results[3].Len()) },
}

// TestImpossibleResultsForExpectedSAsAreRefused: the device forwards another length, another address, or nothing.
func TestImpossibleResultsForExpectedSAsAreRefused(t *testing.T) {
	refusesImpossibleResults(t, func(r *passesRig) *flight {
		f := r.submitExpected(0)
		r.answer(f, none)
		return f
	})
}

// refusesImpossibleResults checks that packet 3 of a chunk is refused, and the device put out of use, if its result in the
// pass that submit has submitted and answered is impossible.
func refusesImpossibleResults(t *testing.T, submit func(r *passesRig) *flight) {
	t.Helper()
	for name, change := range impossibleResults {
		t.Run(name, func(t *testing.T) {
			r := newPassesRig(t, 1, 1)
			f := submit(r)
			change(&r.e.mailbox.slots[f.slots[0]])
			if await(r.e, r.chunks[0]); r.chunks[0].Out[3].Verdict != batch.Drop(batch.GPUBadResult) || r.e.state.ok() {
				t.Errorf("verdict %v, device out of use: %v", r.chunks[0].Out[3].Verdict, !r.e.state.ok())
			}
			if r.chunks[0].Out[2].Verdict != batch.Forward(1) {
				t.Errorf("another packet: %v", r.chunks[0].Out[2].Verdict)
			}
		})
	}
}

// TestSAIsExpectedAfterTwoChunks: and not after a chunk with other packets.
func TestSAIsExpectedAfterTwoChunks(t *testing.T) {
	var x expectation
	a, b := &ipsec.SA{}, &ipsec.SA{}
	for i, step := range []struct {
		sa      *ipsec.SA
		packets int
		want    *ipsec.SA
	}{{a, 16, nil}, {a, 15, a}, {b, 16, nil}, {b, 16, b}, {b, 14, nil}} {
		if x.observe(step.sa, step.packets, 16); x.next() != step.want {
			t.Fatalf("step %d: %+v", i, x)
		}
	}
	for range expectPause {
		if x.observe(a, 16, 16); x.next() != nil {
			t.Fatal("an SA is expected too early")
		}
	}
	x.observe(a, 16, 16)
	if x.observe(a, 16, 16); x.next() != a {
		t.Errorf("%+v", x)
	}
}

// TestWorkersLearnTheirSA: chunks are posted for the SA that all packets were of, until it is replaced.
func TestWorkersLearnTheirSA(t *testing.T) {
	r := newPassesRig(t, 4, 1)
	r.e.traffic[0].expected = expectation{}
	run := func() *flight {
		f := r.submitWith(0, findMode{fixed: true}, findMode{on: true, fixed: true})
		switch {
		case f.expected.SA != nil:
			r.answer(f, none)
		default:
			r.finish(f, forHost)
			r.e.Done(r.chunks[0])
			r.finish(f, forHost)
		}
		if !r.e.Done(r.chunks[0]) || r.chunks[0].Out[0].Verdict != batch.Forward(1) {
			t.Fatalf("%v", r.chunks[0].Out[0].Verdict)
		}
		return f
	}
	for i := range 5 {
		if f := run(); (f.expected.SA == r.sa) != (i >= expectAfter) {
			t.Fatalf("chunk %d is posted for %p", i, f.expected.SA)
		}
	}
	r.sa.Kill()
	f := r.submitWith(0, findMode{fixed: true}, findMode{on: true, fixed: true})
	if f.expected.SA != nil {
		t.Error("a chunk is posted for a killed SA")
	}
}

// TestChunkThatTheDeviceHasNotSealedIsRefused: the results are possible, and the packet that the host looks at is no ESP.
func TestChunkThatTheDeviceHasNotSealedIsRefused(t *testing.T) {
	r := newPassesRig(t, 1, 1)
	f := r.submitExpected(0)
	r.answer(f, none)
	last := r.chunks[0].In[15]
	clear(r.mem[last.Addr-64 : last.Addr+packet.EthernetLen])
	if await(r.e, r.chunks[0]); r.chunks[0].Out[15].Verdict != batch.Drop(batch.GPUBadResult) || r.e.state.ok() {
		t.Errorf("verdict %v, device out of use: %v", r.chunks[0].Out[15].Verdict, !r.e.state.ok())
	}
}

// TestVainWaitsForOlderChunksAreNotRepeated: a worker whose older chunks take longer than olderLimit posts the next ones at once.
func TestVainWaitsForOlderChunksAreNotRepeated(t *testing.T) {
	r := newPassesRig(t, 8, 8)
	r.submit(0, true)
	r.submitExpected(1)
	for k := 2; k < 8; k++ {
		if f := r.submit(k, true); f.expected.SA != nil {
			t.Fatal("numbers were reserved before those of an older chunk")
		}
	}
	if wait := r.e.traffic[0].expected.wait; wait != olderPause-6 {
		t.Errorf("the next wait is after %d chunks", wait)
	}
}

// TestDeviceThatSealsNothingEndsTheExpectation: it leaves all packets to the host, which seals them by the SA.
func TestDeviceThatSealsNothingEndsTheExpectation(t *testing.T) {
	r := newPassesRig(t, 4, 1)
	r.e.traffic[0].expected = expectation{sa: r.sa, seen: expectAfter}
	for i := range 5 {
		f := r.submitWith(0, findMode{fixed: true}, findMode{on: true, fixed: true})
		if (f.expected.SA != nil) != (i == 0) {
			t.Fatalf("chunk %d is posted for %p", i, f.expected.SA)
		}
		r.finish(f, forHost)
		r.e.Done(r.chunks[0])
		if r.finish(f, forHost); !r.e.Done(r.chunks[0]) || r.chunks[0].Out[0].Verdict != batch.Forward(1) {
			t.Fatalf("%v", r.chunks[0].Out[0].Verdict)
		}
	}
}

// TestFramesStayInTheirPlace: a device that reports a packet as sealed, and dropped, that has no room in front of it.
func TestFramesStayInTheirPlace(t *testing.T) {
	r := newPassesRig(t, 1, 1)
	f := r.submitExpected(0)
	r.answer(f, none)
	in := &r.chunks[0].In[3]
	in.Addr = in.Addr/umem.FrameSize*umem.FrameSize + 2
	r.e.mailbox.slots[f.slots[0]].results[3] = batch.DropFor(batch.NoRoute)
	was := in.Addr
	if await(r.e, r.chunks[0]); r.chunks[0].Out[3].Verdict != batch.Drop(batch.GPUBadResult) || in.Addr != was {
		t.Errorf("verdict %v, frame at %#x, was at %#x", r.chunks[0].Out[3].Verdict, in.Addr, was)
	}
}

// TestPacketsThatTheDeviceCouldNotSealAreUnchanged: the device is in order, and they are not counted.
func TestPacketsThatTheDeviceCouldNotSealAreUnchanged(t *testing.T) {
	r := newPassesRig(t, 1, 1)
	f := r.submitExpected(0)
	r.answer(f, none)
	was := r.chunks[0].In[15]
	r.e.mailbox.slots[f.slots[0]].results[15] = batch.Result{Verdict: notSealed}
	if await(r.e, r.chunks[0]); r.chunks[0].Out[15].Verdict != notSealed || r.chunks[0].In[15] != was || !r.e.state.ok() || r.sa.Stats().Packets != 15 {
		t.Errorf("verdict %v, frame %+v, device in use %v, %+v", r.chunks[0].Out[15].Verdict, r.chunks[0].In[15], r.e.state.ok(), r.sa.Stats())
	}
}

// TestWorkerBeyondItsShareLeavesHalfOfTheSlots: one of two workers gets more than half of the slots only while half of them are free.
func TestWorkerBeyondItsShareLeavesHalfOfTheSlots(t *testing.T) {
	r := newPassesRig(t, 8, 8)
	r.e.pool.workers.Store(4)
	for k, want := range []bool{true, true, true, true, true, false} {
		if got := r.e.Ready(0); got != want {
			t.Fatalf("ready with %d chunks of a slot: %v", k, got)
		}
		r.submitExpected(k)
	}
}

// TestLostChunksKeepTheirNumbers: the GPU may have sealed packets of a chunk that it did not finish, so no other packet gets their
// numbers.
func TestLostChunksKeepTheirNumbers(t *testing.T) {
	r := newPassesRig(t, 4, 2)
	r.submitExpected(0)
	await(r.e, r.chunks[0])
	if out := r.chunks[0].Out[0]; out.Verdict != batch.Lost {
		t.Fatalf("verdict %v of a chunk that the GPU does not finish", out.Verdict)
	}
	r.submit(1, true) // to the CPU
	await(r.e, r.chunks[1])
	for i, f := range r.chunks[1].In {
		front, head := r.sa.HeaderLens()
		if n := binary.BigEndian.Uint32(r.mem[int(f.Addr)+packet.EthernetLen+front-head+4:]); n != uint32(17+i) {
			t.Errorf("packet %d has number %d, behind 16 lost ones", i, n)
		}
	}
}
