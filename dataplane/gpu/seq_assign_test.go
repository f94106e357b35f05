package gpu

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// lendingOnHost is securedOnHost with a device that assigns sequence numbers.
func lendingOnHost(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
	t.Helper()
	s, sh := securedOnShim(t, net, g, 3900, 2)
	e := s.engine
	shimNowServing = func() uint32 { return sh.nowServing[0] }
	t.Cleanup(func() { shimNowServing = nil })
	e.pool.take(nil, blockRequest{n: 1}) // the lowest slot
	e.lender = newLender(e.state, e.mailbox, e.pool, Options{Timeout: 1 << 40})
	e.lender.fakeGPU = func(s *slot, n int) {
		for i := range n {
			sh.deviceJobs[i] = s.jobs[i]
		}
		sh.process(s, n, seqRequestFlags)
		copy(s.results, sh.out[:n])
		s.report()
	}
	e.lender.start()
	return s
}

// shimNowServing returns the word of the worker's lock, nil on a GPU.
var shimNowServing func() uint32

// seqsOf checks the sequence numbers of the packets of a worker, in the order of transmission: those of an SA ascend. Then a
// receiver accepts them with any window, as no other sender uses numbers in between.
type seqsOf struct {
	*testing.T
	last map[uint32]uint32 // by SPI
	n    int
}

// check checks the numbers of a chunk, but for packets that were decrypted before: they are sealed behind the others.
func (x *seqsOf) check(mem []byte, c *batch.Chunk, decrypted func(i int) bool) {
	x.Helper()
	for i, f := range c.In[:c.N] {
		spi, at, is := ipsec.Inbound(mem[f.Addr+packet.EthernetLen:][:f.Len-packet.EthernetLen])
		if !is || c.Out[i].Verdict.Action() != batch.ActionForward || decrypted(i) {
			continue
		}
		seq := binary.BigEndian.Uint32(mem[int(f.Addr)+packet.EthernetLen+at+4:])
		if low, ok := x.last[spi]; ok && int32(seq-low) <= 0 {
			x.Errorf("packet %d, SPI %#x: number %d after %d", i, spi, seq, low)
		}
		x.last[spi] = seq
		x.n++
	}
}

// TestNumberedPacketsAgreeWithTheCPUEngine: packets of all kinds of SAs, with others in between; now and then, all loans
// end, or the host takes numbers itself.
func TestNumberedPacketsAgreeWithTheCPUEngine(t *testing.T) {
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	agreeOnAssigned(t, lendingOnHost, rounds)
}

func agreeOnAssigned(t *testing.T, maker securedMaker, rounds int) {
	t.Helper()
	w := newSecuredTwins(t, maker, 11)
	e := w.gpu.engine
	e.shadow, e.traffic[0].finding, e.traffic[0].expected = nil, findMode{fixed: true}, expectation{fixed: true}
	e.lender.since = 1 << 60 // loans do not end by themselves
	w.gaps = true
	w.clampMSS()
	numbers := &seqsOf{T: t, last: map[uint32]uint32{}}
	byDevice, byHost := 0, 0
	for n := range rounds {
		others := w.rnd.IntN(4) == 0
		e.seqAssign = seqAssignment{ticket: e.seqAssign.ticket, released: e.seqAssign.released, launches: e.seqAssign.launches, off: n%16 == 15}
		e.traffic[0].assigning = assigning{seen: assignAfter}
		var decrypted []bool
		w.run(func() (f []byte) {
			switch port := outPort + w.rnd.IntN(len(w.all)); {
			case others && w.rnd.IntN(64) == 0:
				f = w.next()
			case w.rnd.IntN(8) == 0:
				f = w.syn(w.rnd.IntN(2) == 0, port)
			default:
				f = w.clear(w.rnd.IntN(2) == 0, 9, port)
			}
			_, _, is := ipsec.Inbound(f[packet.EthernetLen:])
			decrypted = append(decrypted, is)
			return f
		})
		for i := range e.ipsec.free[len(e.ipsec.free)-1][:w.chunks[1].N] {
			if e.ipsec.free[len(e.ipsec.free)-1][i].Kind == esp.Decided {
				byDevice++
			} else {
				byHost++
			}
		}
		numbers.check(w.gpu.umem, w.chunks[1], func(i int) bool { return decrypted[i] })
		if ticket := uint32(e.seqAssign.ticket); shimNowServing != nil && shimNowServing() != ticket<<1 && (shimNowServing() != ticket<<1|1 || e.mailbox.released[0] != ticket) {
			t.Fatalf("before ticket %d, the worker's lock has %#x, and the host has released it at %d: it is not released", ticket, shimNowServing(), e.mailbox.released[0])
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

// clampMSS has the gateways lower MSS options, and protect TCP, too.
func (w *securedTwins) clampMSS() {
	var rules [2][]gateway.Rule
	for i, g := range w.gateways {
		g.ClampMSS = true
		for k, a := range w.all {
			for _, any := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
				p := policy.Policy{Src: any, Dst: any, Protocol: 6, DstPorts: policy.Port(outPort + uint16(k)), Action: policy.Protect, Target: a.out[i].Tunnel()}
				rules[i] = append(rules[i], gateway.Rule{Direction: ipsec.Out, IfID: a.IfID, Policy: p})
			}
		}
	}
	w.setRulesAfter(rules)
}

// addLender adds a lender whose device answers n requests by a function.
func (r *passesRig) addLender(answer func(s *slot, n int)) {
	m, pool := newTestMailbox(r.T, 1, 28)
	r.e.lender = newLender(r.e.state, m, pool, Options{Timeout: 1 << 40})
	r.e.lender.fakeGPU = func(s *slot, n int) { answer(s, n); s.report() }
	r.e.lender.ready.Store(true)
	r.e.lender.start()
}

// numbersOfOneSA returns the answers of a device to which the numbers of one SA are lent.
func numbersOfOneSA() func(s *slot, n int) {
	next := uint64(0)
	return func(s *slot, n int) {
		for i, q := range s.requests()[:n] {
			s.answers()[i] = next
			switch count := uint64(posted(s, i).Addr); q.What {
			case requestLend:
				next = uint64(q.SeqHigh)<<32 + uint64(q.SeqLow) - count + 1
			case requestTake:
				next += count
			}
		}
	}
}

// submitToAssign submits chunk k of the rig for the device to assign sequence numbers.
func (r *passesRig) submitToAssign(k int) *flight {
	if r.e.lender == nil {
		r.addLender(func(s *slot, n int) { clear(s.answers()[:n]) })
	}
	r.e.traffic[r.chunks[k].Lane].assigning.seen = assignAfter
	return r.submitWith(k, findMode{fixed: true}, findMode{fixed: true})
}

// TestLanesHaveFirstPassesOfTheirOwn: a chunk of other packets in one lane has none, waits for none in another one, and does not
// end the assignment there.
func TestLanesHaveFirstPassesOfTheirOwn(t *testing.T) {
	r := newPassesRig(t, 6, 3)
	r.chunks[0].Lane, r.chunks[2].Lane = 1, 1
	if f := r.submitToAssign(0); !f.assignsSeqs() {
		t.Fatalf("flags %#x of packets to seal", f.passFlags)
	}
	if f := r.submitWith(1, findMode{fixed: true}, findMode{}); f.pass != lastPass || f.passFlags != 0 {
		t.Fatalf("pass %d, flags %#x of packets in another lane: want the last pass at once", f.pass, f.passFlags)
	}
	if f := r.submitToAssign(2); !f.assignsSeqs() {
		t.Fatalf("flags %#x of packets to seal behind those of another lane", f.passFlags)
	}
	r.finish(&r.e.inFlight[1], batch.Result{})
	await(r.e, r.chunks[1])
	if lanes := &r.e.traffic; lanes[0].assigning.seen != 0 || lanes[1].assigning.seen != assignAfter {
		t.Errorf("%d chunks in a row, and %d in the other lane", lanes[1].assigning.seen, lanes[0].assigning.seen)
	}
	for i := range r.e.inFlight {
		r.assign(&r.e.inFlight[i], none)
	}
	await(r.e, r.chunks[0])
	await(r.e, r.chunks[2])
	if seen := r.e.traffic[1].assigning.seen; seen != assignAfter+2 || r.e.lanes[1].inFirstPass != 0 {
		t.Errorf("%d chunks in a row, want %d", seen, assignAfter+2)
	}
}

// TestCPUDefersChunksOfOneLane: a chunk that the GPU has no slot for is executed at once beside one of another lane whose packets
// have no numbers yet, and behind one of its own lane is not.
func TestCPUDefersChunksOfOneLane(t *testing.T) {
	for _, lane := range []uint8{0, 1} {
		r := newPassesRig(t, 1, 2)
		r.chunks[0].Lane, r.chunks[1].Lane = 1, lane
		r.submit(0, true)
		if f := r.submit(1, true); f.placement != NoFreeSlot || f.deferred != (lane == 1) {
			t.Errorf("lane %d: placement %d, deferred: %v", lane, f.placement, f.deferred)
		}
	}
}

// assign finishes a chunk's pass: the device has sealed the packets for which host is false.
func (r *passesRig) assign(f *flight, host func(i int) bool) {
	f.expected = esp.Expected{First: 1}
	r.answer(f, host)
	f.expected = esp.Expected{}
}

// TestChunksKeepTheLock: until the host has posted the packets that the device left to it.
func TestChunksKeepTheLock(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	words := func(f *flight, k int) [2]uint32 {
		s := &r.e.mailbox.slots[f.slots[k]]
		return [2]uint32{uint32(s.descriptors[0] >> 32 & (assignSeqsFlags | hasJobsFlag)), uint32(s.descriptors[cacheLineWords]>>32) &^ lockEarly}
	}
	ticket := uint64(0)
	for k := range r.chunks {
		f := r.submitToAssign(k)
		for tile := range f.tiles {
			want := [2]uint32{assignSeqsFlags, uint32(ticket)}
			if tile == 0 {
				want[1] |= lockWaits
			}
			if got := words(f, tile); got != want {
				t.Fatalf("chunk %d, tile %d: %#x, want %#x", k, tile, got, want)
			}
			ticket += uint64(r.e.mailbox.slots[f.slots[tile]].batches)
		}
		if f.ticket != ticket {
			t.Fatalf("chunk %d ends before ticket %d, want %d", k, f.ticket, ticket)
		}
	}
	first := &r.e.inFlight[0]
	r.assign(first, func(i int) bool { return i == 5 })
	if r.e.Done(r.chunks[0]); first.pass != lastPass {
		t.Fatalf("pass %d: %v", first.pass, r.e.state.err())
	}
	if got := r.e.mailbox.released[0]; got != uint32(first.ticket) {
		t.Errorf("the lock is released at ticket %d, want %d", got, first.ticket)
	}
	for k, job := range first.jobs {
		if (job.Kind == esp.Seal) != (k == 5) {
			t.Errorf("packet %d: %+v", k, job)
		}
	}
	r.finish(first, batch.Result{})
	r.assign(&r.e.inFlight[1], none)
	for k := range 2 {
		if !r.e.Done(r.chunks[k]) {
			t.Fatalf("chunk %d is not done", k)
		}
	}
	if stats := r.sa.Stats(); stats.Packets != 32 || stats.Bytes != 32*128 {
		t.Errorf("%+v after 32 packets of 128 bytes", stats)
	}
}

// TestLockIsReleasedEarlyIfTheWorkerNeedsManySlots: more than a fifth of the blocks, so the lock bounds it.
func TestLockIsReleasedEarlyIfTheWorkerNeedsManySlots(t *testing.T) {
	r := newPassesRig(t, 20, 6)
	for k := range r.chunks {
		f := r.submitToAssign(k)
		used := r.e.lanes[f.chunk.Lane].used
		if used != k+1 {
			t.Fatalf("%d chunks need %d blocks", k+1, used)
		}
		for _, s := range f.slots[:f.tiles] {
			word := uint32(r.e.mailbox.slots[s].descriptors[cacheLineWords] >> 32)
			if early := word&lockEarly != 0; early != (used > 4) {
				t.Errorf("with %d slots needed and 20 blocks, the lock is released early: %v", used, early)
			}
		}
	}
}

// TestLockIsNotReleasedBackwards: the last passes of two lanes are posted in another order than their tickets have.
func TestLockIsNotReleasedBackwards(t *testing.T) {
	r := newPassesRig(t, 4, 2)
	r.addLender(numbersOfOneSA())
	r.chunks[0].Lane = 1
	for k := range r.chunks {
		r.submitToAssign(k)
	}
	for i := range r.e.inFlight {
		r.assign(&r.e.inFlight[i], func(i int) bool { return i == 5 })
	}
	first, second := r.e.inFlight[0].ticket, r.e.inFlight[1].ticket
	if r.e.Done(r.chunks[0]); r.e.lanes[0].inFirstPass+r.e.lanes[1].inFirstPass != 0 || first == second || r.e.mailbox.released[0] != uint32(second) {
		t.Errorf("the lock is released at ticket %d, want %d", r.e.mailbox.released[0], second)
	}
	r.finish(&r.e.inFlight[0], batch.Result{})
	r.finish(&r.e.inFlight[1], batch.Result{})
	await(r.e, r.chunks[0])
	await(r.e, r.chunks[1])
	// Between releases, a worker may have any number of batches without a packet of the host.
	for _, c := range []struct{ last, next, want uint64 }{
		{0, 4, 4}, {12, 10, 12}, {12, 14, 14}, {tickets - 2, tickets + 3, 3}, {3, tickets - 2, tickets - 2}, {3, tickets/2 + 9, tickets/2 + 9}, {3, 5*tickets + 1, 1},
	} {
		r.e.seqAssign.released = 0
		r.e.releaseLock(c.last)
		if r.e.releaseLock(c.next); r.e.mailbox.released[0] != uint32(c.want) {
			t.Errorf("released to %d, then to %d: %d, want %d", c.last, c.next, r.e.mailbox.released[0], c.want)
		}
	}
}

// sealedByHost makes packet 5 of the rig's only chunk one that the host seals with a number of the device. Numbers 21 and
// up are lent. It returns the posted job.
func sealedByHost(t *testing.T, number uint64) (r *passesRig, job deviceJob) {
	t.Helper()
	r = newPassesRig(t, 1, 1)
	r.sa.Skip(20)
	f := r.submitToAssign(0)
	if _, _, ok := r.sa.Lend(100, r.e.lender); !ok {
		t.Fatal("the SA cannot be lent")
	}
	r.assign(f, func(i int) bool { return i == 5 })
	s := &r.e.mailbox.slots[f.slots[0]]
	s.results[5], s.saReports()[5] = batch.MakeResult(r.sa.KeyIndex(), 0, resultHostSeals), esp.SAReport(number)
	r.e.Done(r.chunks[0])
	return r, s.jobs[5]
}

// TestHostSealsPacketsWithNumbersOfTheDevice: it takes no others.
func TestHostSealsPacketsWithNumbersOfTheDevice(t *testing.T) {
	r, _ := sealedByHost(t, 40)
	f := &r.e.inFlight[0]
	if job := &f.jobs[5]; f.pass != lastPass || job.Kind != esp.Seal || job.SA != r.sa || job.Seq != 40 {
		t.Fatalf("pass %d, %+v", f.pass, f.jobs[5])
	}
	r.finish(f, batch.Result{})
	if !r.e.Done(r.chunks[0]) || r.chunks[0].Out[5].Verdict != batch.Forward(1) {
		t.Errorf("verdict %v", r.chunks[0].Out[5].Verdict)
	}
}

// TestLoansAreExtendedBeforeTheyEnd: when the device reports that it has few numbers of an SA left, with a packet that it has sealed. The
// results are usual, or one of them is shorter than the ESP.
func TestLoansAreExtendedBeforeTheyEnd(t *testing.T) {
	for _, shorter := range []uint16{0, 1} {
		r := newPassesRig(t, 1, 1)
		f := r.submitToAssign(0)
		if _, _, ok := r.sa.Lend(100, r.e.lender); !ok {
			t.Fatal("the SA cannot be lent")
		}
		r.e.lender.sas[r.sa] = &lentSA{key: r.sa.KeyIndex()}
		r.assign(f, none)
		var asked []seqRequest
		r.e.lender.fakeGPU = func(s *slot, n int) {
			asked = append(asked, s.requests()[:n]...)
			clear(s.answers()[:n])
			s.report()
		}
		s := &r.e.mailbox.slots[f.slots[0]]
		was := s.results[5]
		s.results[5] = batch.ForwardTo(was.Verdict.Port(), was.Addr(), was.Len()-shorter)
		s.saReports()[5] |= esp.ReportSeqsLow << 32
		last := r.sa.LastSequence()
		await(r.e, r.chunks[0])
		if v := r.chunks[0].Out[5].Verdict; v.Action() != batch.ActionForward {
			t.Fatalf("verdict %v, device: %v", v, r.e.state.err())
		}
		if len(asked) != 1 || asked[0].What != requestExtend || r.sa.LastSequence() <= last {
			t.Errorf("%+v asked, numbers up to %d, before up to %d", asked, r.sa.LastSequence(), last)
		}
	}
}

// TestNumbersThatWereNotLentAreRefused: below the loan, above it, and above what a device can have.
func TestNumbersThatWereNotLentAreRefused(t *testing.T) {
	for _, number := range []uint64{0, 20, 121, 1 << 50, 1<<64 - 1} {
		r, _ := sealedByHost(t, number)
		if await(r.e, r.chunks[0]); r.chunks[0].Out[5].Verdict.Action() == batch.ActionForward || causeOf(r.e.state.err()) != CauseBadResult {
			t.Errorf("number %d: verdict %v, the device: %v", number, r.chunks[0].Out[5].Verdict, r.e.state.err())
		}
	}
}

// TestPacketsWithRevokedNumbersAreLost: the host has used numbers behind all that were lent, so a receiver may drop them.
func TestPacketsWithRevokedNumbersAreLost(t *testing.T) {
	r := newPassesRig(t, 1, 1)
	f := r.submitToAssign(0)
	r.assign(f, none)
	r.e.lender.revoke()
	if await(r.e, r.chunks[0]); r.chunks[0].Out[3].Verdict != batch.Lost || !r.e.state.ok() {
		t.Errorf("verdict %v", r.chunks[0].Out[3].Verdict)
	}
}

// TestChunksDoNotWaitForTheTurnOfAnAbandonedOne: nobody passes it on.
func TestChunksDoNotWaitForTheTurnOfAnAbandonedOne(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	waits := func(f *flight) bool {
		return r.e.mailbox.slots[f.slots[0]].descriptors[cacheLineWords]>>32&lockWaits != 0
	}
	hung := r.submitToAssign(0)
	slots := append([]uint16(nil), hung.slots[:hung.tiles]...)
	if await(r.e, r.chunks[0]); r.chunks[0].Out[0].Verdict != batch.Lost {
		t.Fatalf("verdict %v", r.chunks[0].Out[0].Verdict)
	}
	for _, k := range slots {
		r.e.mailbox.slots[k].report()
	}
	time.Sleep(5 * time.Millisecond)
	r.e.traffic[0].assigning.seen = assignAfter
	for k, want := range []bool{false, true} {
		if f := r.submitToAssign(1 + k); f.placement != ExecutedOnGPU || waits(f) != want {
			t.Errorf("chunk %d after it: placement %d, waits for the lock: %v", 1+k, f.placement, waits(f))
		}
	}
}

// TestImpossibleResultsOfNumberedPacketsAreRefused: the device forwards another length, another address, or nothing.
func TestImpossibleResultsOfNumberedPacketsAreRefused(t *testing.T) {
	refusesImpossibleResults(t, func(r *passesRig) *flight {
		f := r.submitToAssign(0)
		r.assign(f, none)
		return f
	})
}

// TestNumberedChunksAllocateNothing beside what the test itself allocates for its packets.
func TestNumberedChunksAllocateNothing(t *testing.T) {
	r := newPassesRig(t, 2, 1)
	run := func() {
		f := r.submitToAssign(0)
		r.assign(f, none)
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
