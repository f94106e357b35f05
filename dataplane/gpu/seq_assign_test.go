package gpu

import (
	"errors"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
)

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

// TestNumbersInTheMemoryOfAFailedDevice: another device takes none there, so the host assigns them, behind all that were lent.
func TestNumbersInTheMemoryOfAFailedDevice(t *testing.T) {
	r := newPassesRig(t, 2, 2)
	r.addLender(numbersOfOneSA())
	home := &deviceState{}
	r.e.lender.state = home
	r.e.lender.users.add(r.e)
	if f := r.submitToAssign(0); !f.assignsSeqs() {
		t.Fatalf("flags %#x of packets to seal", f.passFlags)
	}
	r.e.lender.lend([]*ipsec.SA{r.sa}, &testOutbound{longest: 1400, leaves: true})
	last := r.sa.LastSequence()
	home.fail(errors.New("test"))
	unused := make(chan struct{})
	go func() {
		r.e.lender.awaitOthers()
		close(unused)
	}()
	select {
	case <-unused:
		t.Error("the memory may be gone while a chunk is on the other device")
	case <-time.After(10 * time.Millisecond):
	}
	r.assign(&r.e.inFlight[0], none)
	await(r.e, r.chunks[0])
	<-unused
	f := r.submitToAssign(1)
	if f.assignsSeqs() || f.pass != lastPass {
		t.Fatalf("pass %d, flags %#x after the failure: want the host's numbers", f.pass, f.passFlags)
	}
	for i, job := range f.jobs {
		if job.Seq != last+1+uint64(i) {
			t.Errorf("packet %d has number %d, want %d", i, job.Seq, last+1+uint64(i))
		}
	}
	r.finish(f, batch.Result{})
	if await(r.e, r.chunks[1]); r.chunks[1].Out[3].Verdict != batch.Forward(1) || !r.e.state.ok() {
		t.Errorf("verdict %v, the device: %v", r.chunks[1].Out[3].Verdict, r.e.state.err())
	}
}

// TestResultsOfAFailedDeviceAreLost: it may have old keys, as it gets no changes, but may still find new SAs in the memory of another device.
func TestResultsOfAFailedDeviceAreLost(t *testing.T) {
	r := newPassesRig(t, 1, 1)
	f := r.submitToAssign(0)
	r.assign(f, none)
	r.e.state.fail(errors.New("test"))
	if await(r.e, r.chunks[0]); r.chunks[0].Out[3].Verdict != batch.Lost {
		t.Errorf("verdict %v", r.chunks[0].Out[3].Verdict)
	}
}
