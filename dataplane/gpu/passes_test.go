package gpu

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/umem"
)

// unread makes the chunks of an engine begin with a first pass, in which the device finds SAs or tunnels or both, without
// a shadow, which needs jobs.
func unread(maker securedMaker, find, classify bool) securedMaker {
	return func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		t.Helper()
		s := maker(t, net, g)
		s.engine.shadow = nil
		s.engine.traffic[0].finding, s.engine.traffic[0].classifying = findMode{on: find, fixed: true}, findMode{on: classify, fixed: true}
		return s
	}
}

// TestSALookupAgreesWithTheCPUEngine: the device finds the SAs of received ESP by itself; the host processes the other
// packets in a last pass.
func TestSALookupAgreesWithTheCPUEngine(t *testing.T) {
	packets := 10_000
	if testing.Short() {
		packets = 3000
	}
	if w := agreeOnSecured(t, unread(securedOnHost(3900), true, false), packets); w.found < w.opened/8 || w.found == w.opened {
		t.Errorf("the device found the SAs of %d of %d opened packets: want a part, as it finds none with ESN, and none in transport mode", w.found, w.opened)
	}
}

// TestAdmittedPacketsNeedNoJobs: the host confirms them, in order with the packets that have jobs.
func TestAdmittedPacketsNeedNoJobs(t *testing.T) {
	packets := 20_000
	if testing.Short() {
		packets = 5000
	}
	maker := func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		t.Helper()
		s := unread(securedOnHost(3900), true, false)(t, net, g)
		s.engine.othersShare = 0
		return s
	}
	if w := agreeOnSecured(t, maker, packets); w.jobless < w.opened/8 || w.found < w.opened/50 {
		t.Errorf("of %d opened packets, %d had no job, and %d one with an SA that the device found: want a part each", w.opened, w.jobless, w.found)
	}
}

// TestClassificationAgreesWithTheCPUEngine: the device finds the tunnels of packets to seal and writes all their headers,
// alone and together with the SA lookup.
func TestClassificationAgreesWithTheCPUEngine(t *testing.T) {
	packets := 10_000
	if testing.Short() {
		packets = 3000
	}
	for _, find := range []bool{false, true} {
		if w := agreeOnSecured(t, unread(securedOnHost(3900), find, true), packets); w.sealed == 0 || w.unread < w.sealed/8 || w.unread == w.sealed {
			t.Errorf("SA lookup %v: the device wrote the headers of %d of %d sealed packets: want a part, as it writes none in transport mode", find, w.unread, w.sealed)
		}
	}
}

// passesRig is a gateway's engine whose device is the test: it finishes passes when the test says so.
type passesRig struct {
	*testing.T
	e      *Engine
	sa     *ipsec.SA // outbound
	mem    []byte
	chunks []*batch.Chunk
}

func newPassesRig(t *testing.T, slots, chunks int) *passesRig {
	t.Helper()
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	sa := protectAll(t, net, g)
	sa.SetKeyIndex(0, nil) // like a device
	const size = 16
	r := &passesRig{T: t, sa: sa, mem: mapMemory(t, chunks*size*umem.FrameSize), chunks: batch.NewChunks(chunks, size)}
	r.e = newIPsecEngine(t, net, g, r.mem, slots, size, maxKeys, Options{Timeout: 20 * time.Millisecond, Pause: time.Millisecond, PartialChecksums: net.PartialChecksums})
	r.e.fakeGPU = func(*flight) {}
	return r
}

// submit submits chunk k, of packets to encrypt, with or without a first pass.
func (r *passesRig) submit(k int, first bool) *flight {
	return r.submitWith(k, findMode{on: first, fixed: true}, findMode{fixed: true})
}

// submitWith submits chunk k with or without SA lookup and classification by the device.
func (r *passesRig) submitWith(k int, finding, classifying findMode) *flight {
	c := r.chunks[k]
	for i := range c.In {
		addr := uint32(k*len(c.In)+i)*umem.FrameSize + umem.DataOffset
		f := testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 100)...)
		copy(r.mem[addr:], f)
		c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(f)), Origin: batch.From(1)} // without partial checksums
	}
	c.N, c.Submitted = len(c.In), batch.Clock()
	r.e.traffic[c.Lane].finding, r.e.traffic[c.Lane].classifying = finding, classifying
	r.e.Submit(c)
	return &r.e.inFlight[len(r.e.inFlight)-1]
}

// finish finishes the current pass of a chunk: the first one with a result for each packet.
func (r *passesRig) finish(f *flight, first batch.Result) {
	for k := range f.tiles {
		r.finishTile(f, k, first)
	}
}

// finishTile is finish for tile k. Packets that the first pass has finished have no job.
func (r *passesRig) finishTile(f *flight, k int, first batch.Result) {
	s := &r.e.mailbox.slots[f.slots[k]]
	for i := f.tileStart(k); i < f.tileStart(k+1); i++ {
		in, result := f.chunk.In[i], &s.results[i-f.tileStart(k)]
		if *result = first; f.pass == lastPass && f.jobs[i].Kind != esp.Decided {
			r.e.checker.icvEnd(in, &f.jobs[i])[0]++
			*result = batch.ForwardTo(1, in.Addr, in.Len)
		}
	}
	s.report()
}

var forHost = batch.Result{Verdict: resultHost}

// TestNumbersAreInTheOrderOfChunks: a chunk without a first pass waits for the older ones with one.
func TestNumbersAreInTheOrderOfChunks(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	for k := range r.chunks {
		r.submit(k, k < 2)
	}
	flights := r.e.inFlight
	if r.sa.Sequence() != 0 || flights[0].pass != firstPass || flights[1].pass != firstPass || flights[2].pass != waiting {
		t.Fatalf("%d numbers taken, passes %d, %d and %d", r.sa.Sequence(), flights[0].pass, flights[1].pass, flights[2].pass)
	}
	r.finish(&flights[1], forHost)
	if r.e.Done(r.chunks[0]); r.sa.Sequence() != 0 {
		t.Fatal("a chunk took numbers before an older one")
	}
	r.finish(&flights[0], forHost)
	if r.e.Done(r.chunks[0]); r.e.lanes[0].inFirstPass != 0 {
		t.Fatalf("%d chunks are not in their last pass", r.e.lanes[0].inFirstPass)
	}
	last := uint32(0)
	for k, c := range r.chunks {
		for i, f := range c.In {
			at := int(f.Addr) + int(flights[k].jobs[i].ESP) + 4
			if n := binary.BigEndian.Uint32(r.mem[at:]); n != last+1 {
				t.Fatalf("packet %d of chunk %d has number %d after %d", i, k, n, last)
			}
			last++
		}
	}
	for k, c := range r.chunks {
		r.finish(&r.e.inFlight[0], forHost)
		if !r.e.Done(c) || c.Out[0].Verdict != batch.Forward(1) {
			t.Fatalf("chunk %d is not forwarded: %v", k, c.Out[0].Verdict)
		}
	}
	if busy(r.e) != 0 {
		t.Errorf("slots %b are in use", busy(r.e))
	}
}

// TestTimeoutsInTheFirstPass: what the device does not finish is lost, as are chunks that wait behind it. The slots
// return, and the next chunk passes.
func TestTimeoutsInTheFirstPass(t *testing.T) {
	r := newPassesRig(t, 4, 3)
	hung := r.submit(0, true)
	slots := append([]uint16(nil), hung.slots[:hung.tiles]...)
	r.submit(1, false)
	for _, c := range r.chunks[:2] {
		await(r.e, c)
		if c.Out[0].Verdict != batch.Lost {
			t.Errorf("a packet has verdict %v", c.Out[0].Verdict)
		}
	}
	if r.e.lanes[0].inFirstPass != 0 || r.e.Quiesced() || r.sa.Sequence() != 0 {
		t.Errorf("%d chunks wait, %d numbers taken", r.e.lanes[0].inFirstPass, r.sa.Sequence())
	}
	for _, k := range slots {
		r.e.mailbox.slots[k].report()
	}
	time.Sleep(5 * time.Millisecond)
	if !r.e.Quiesced() || busy(r.e) != 0 {
		t.Fatalf("slots %b are in use", busy(r.e))
	}
	f := r.submit(2, true)
	r.finish(f, forHost)
	r.e.Done(r.chunks[2])
	r.finish(&r.e.inFlight[0], forHost)
	if await(r.e, r.chunks[2]); r.chunks[2].Out[0].Verdict != batch.Forward(1) {
		t.Errorf("the next chunk has verdict %v, placement %d", r.chunks[2].Out[0].Verdict, f.placement)
	}
}

// TestCPUWaitsForUnpostedChunks: without a free slot, a chunk of plaintext takes its numbers after those of older
// chunks.
func TestCPUWaitsForUnpostedChunks(t *testing.T) {
	r := newPassesRig(t, 1, 2)
	f := r.submit(0, true)
	if second := r.submit(1, false); second.placement != NoFreeSlot || !second.deferred || r.sa.Sequence() != 0 {
		t.Fatalf("the second chunk has placement %d, deferred %v, and %d numbers are taken", second.placement, second.deferred, r.sa.Sequence())
	}
	r.finish(f, forHost)
	r.e.Done(r.chunks[0])
	r.finish(&r.e.inFlight[0], forHost)
	for _, c := range r.chunks {
		if !r.e.Done(c) || c.Out[0].Verdict.Action() != batch.ActionForward {
			t.Errorf("verdict %v", c.Out[0].Verdict)
		}
	}
	if r.sa.Sequence() != 32 {
		t.Errorf("%d numbers are taken by 32 packets", r.sa.Sequence())
	}
}

// TestSAsThatCannotBeFoundAreRefused: a device that names keys of no SA, or of one for sending, or that has written no
// result, is taken out of use.
func TestSAsThatCannotBeFoundAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		result batch.Result
		report esp.SAReport
	}{
		"no SA":        {batch.ForwardTo(1, 64, 100), 7},
		"an index":     {batch.ForwardTo(1, 64, 100), 1<<32 - 1},
		"for sending":  {batch.ForwardTo(1, 64, 100), 0},
		"no result":    {batch.Result{}, 0},
		"no such port": {batch.ForwardTo(4000, 64, 100), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPassesRig(t, 4, 1)
			f := r.submit(0, true)
			for k := range f.tiles {
				reports := r.e.mailbox.slots[f.slots[k]].saReports()
				for i := range reports {
					reports[i] = c.report
				}
			}
			r.finish(f, c.result)
			if await(r.e, r.chunks[0]); r.chunks[0].Out[0].Verdict != batch.Drop(batch.GPUBadResult) || r.e.state.ok() {
				t.Errorf("verdict %v, device out of use: %v", r.chunks[0].Out[0].Verdict, !r.e.state.ok())
			}
		})
	}
}

// TestChangedResultsAreRefused: a device that leaves a packet to the host after the host has counted the packets that it
// left is taken out of use. The packet's job is that of another chunk.
func TestChangedResultsAreRefused(t *testing.T) {
	r := newPassesRig(t, 4, 1)
	f := r.submit(0, true)
	for _, verdict := range []batch.Verdict{resultHost, resultNeedsSeq} {
		f.jobs[0] = esp.Job{Kind: esp.Open, Admitted: true, SA: r.sa, Seq: 1}
		r.e.mailbox.slots[f.slots[0]].results[0].Verdict = verdict
		r.e.acceptAdmitted(f, false)
		if v := f.chunk.Out[0].Verdict; v != batch.Drop(batch.GPUBadResult) || r.e.state.ok() || f.jobs[0].Kind != esp.Decided {
			t.Errorf("%v: verdict %v, device out of use: %v", verdict, v, !r.e.state.ok())
		}
	}
}

func TestFindModeFollowsTheTraffic(t *testing.T) {
	m := findMode{}
	expect := func(what string, want bool) {
		t.Helper()
		if got := m.next(); got != want {
			t.Errorf("%s: a first pass: %v", what, got)
		}
	}
	expect("at the start", false)
	m.observe(100, 25, -1)
	expect("a quarter is ESP", true)
	m.observe(100, 90, 90)
	expect("the device finds most", true)
	m.observe(100, 24, 24)
	expect("little ESP", false)
	m.observe(100, 100, -1)
	m.observe(100, 100, 3) // as with 64-bit sequence numbers
	for range findPause {
		m.observe(100, 100, -1)
		expect("SAs that the device does not find", false)
	}
	expect("after a pause", true)
}
