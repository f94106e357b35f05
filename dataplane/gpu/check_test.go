package gpu

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/umem"
)

// submit runs a chunk of traffic through the engine.
func (w *securedTwins) submit() *batch.Chunk {
	c := w.chunks[1]
	c.N = securedChunk
	for i := range c.N {
		f := w.next()
		c.In[i] = batch.Frame{Addr: uint32(i)*umem.FrameSize + umem.DataOffset, Len: uint16(len(f))}
		copy(w.gpu.umem[c.In[i].Addr:], f)
	}
	clear(c.Out)
	w.gpu.settle()
	c.Submitted = batch.Clock()
	process(w.gpu.engine, c)
	return c
}

// TestImpossibleResultsAreRefused: packets with an impossible result are dropped as gpu_bad_result, the
// other packets of the chunk keep their verdicts, and the device is taken out of use.
func TestImpossibleResultsAreRefused(t *testing.T) {
	w := newSecuredTwins(t, securedOnHost(3900), 11)
	e := w.gpu.engine
	e.shadow = nil // which would detect some of these first
	work, zero := e.fakeGPU, func(b []byte) { clear(b) }
	for _, c := range []struct {
		name    string
		kind    esp.JobKind // of the packets with wrong results
		corrupt func(r *batch.Result)
		icv     func(b []byte) // nil: as it is
	}{
		{"address of another frame", esp.Plain, func(r *batch.Result) { *r = batch.MakeResult(r.Addr()^umem.FrameSize, r.Len(), r.Verdict) }, nil},
		{"address, one bit", esp.Seal, func(r *batch.Result) { *r = batch.MakeResult(r.Addr()^16, r.Len(), r.Verdict) }, nil},
		{"address, opened", esp.Open, func(r *batch.Result) { *r = batch.MakeResult(r.Addr()^4, r.Len(), r.Verdict) }, nil},
		{"address beyond memory", esp.Open, func(r *batch.Result) { *r = batch.MakeResult(0xffff_fff0, r.Len(), r.Verdict) }, nil},
		{"length beyond the frame", esp.Plain, func(r *batch.Result) { *r = batch.MakeResult(r.Addr(), r.Len()|0x8000, r.Verdict) }, nil},
		{"length beyond, opened", esp.Open, func(r *batch.Result) { *r = batch.MakeResult(r.Addr(), r.Len()|0x8000, r.Verdict) }, nil},
		{"no length", esp.Seal, func(r *batch.Result) { *r = batch.MakeResult(r.Addr(), 0, r.Verdict) }, nil},
		{"port that does not exist", esp.Seal, func(r *batch.Result) { r.Verdict = batch.Forward(4000) }, nil},
		{"adjacency that does not exist", esp.Plain, func(r *batch.Result) { *r = batch.HoldFor(1 << 31) }, nil},
		{"action that does not exist", esp.Plain, func(r *batch.Result) { r.Verdict = 0xf000 }, nil},
		{"lost", esp.Seal, func(r *batch.Result) { r.Verdict = batch.Lost }, nil},
		{"reason that does not exist", esp.Open, func(r *batch.Result) { r.Verdict = 0xfff }, nil},
		{"nothing", esp.Seal, func(r *batch.Result) { *r = batch.Result{} }, nil},
		{"not sealed", esp.Seal, nil, func(b []byte) { binary.NativeEndian.PutUint64(b, e.checker.canary) }},
		{"not sealed, held", esp.Seal, func(r *batch.Result) { *r = batch.Result{Verdict: batch.Hold} },
			func(b []byte) { binary.NativeEndian.PutUint64(b, e.checker.canary) }},
		{"zeros instead of an ICV", esp.Seal, nil, zero},
	} {
		e.state = &deviceState{}
		e.checker.state = e.state
		wrong := map[int]bool{}
		e.fakeGPU = func(f *flight) {
			work(f)
			eachPacket(e, f, func(i int, r *batch.Result, job esp.Job) {
				if job.Kind != c.kind || r.Verdict.Action() != batch.ActionForward {
					return
				}
				wrong[i] = true
				if c.corrupt != nil {
					c.corrupt(r)
				}
				if c.icv != nil {
					c.icv(e.checker.icvEnd(w.chunks[1].In[i], &job))
				}
			})
		}
		refused := 0
		for i, r := range w.submit().Out[:securedChunk] {
			switch {
			case r.Verdict == batch.Drop(batch.GPUBadResult) && wrong[i]:
				refused++
			case r.Verdict == batch.Drop(batch.GPUBadResult):
				t.Errorf("%s: packet %d is refused, and nothing is wrong with it", c.name, i)
			case wrong[i] && r.Verdict.Action() != batch.ActionDrop && c.kind != esp.Open:
				t.Errorf("%s: packet %d: %v", c.name, i, r.Verdict)
			}
		}
		err := e.state.err()
		if refused == 0 || err == nil || causeOf(err) != CauseBadResult {
			t.Errorf("%s: %d of %d packets refused; the device is out for %v", c.name, refused, len(wrong), err)
		}
		byCPU := e.executed[ExecutedOnCPU].Load()
		if w.submit(); e.Name() != "cpu" || e.executed[ExecutedOnCPU].Load() != byCPU+1 {
			t.Errorf("%s: the device is still used", c.name)
		}
	}

	// A device that reports done without writing results: results of earlier packets are not used.
	e.state = &deviceState{}
	e.checker.state = e.state
	decided := map[int]bool{}
	e.fakeGPU = func(f *flight) {
		eachPacket(e, f, func(i int, _ *batch.Result, job esp.Job) { decided[i] = job.Kind == esp.Decided })
		eachTile(e, func(*slot, []batch.Frame, []esp.Job) {})(f)
	}
	c, refused := w.submit(), 0
	for i, r := range c.Out[:c.N] {
		if r.Verdict == batch.Drop(batch.GPUBadResult) {
			refused++
		} else if !decided[i] {
			t.Errorf("done, and nothing: packet %d: %v", i, r.Verdict)
		}
	}
	if refused < c.N/2 || e.Name() != "cpu" {
		t.Errorf("done, and nothing: %d of %d packets refused, the engine is %s", refused, c.N, e.Name())
	}
}

// TestFinishedChunksAreAcceptedAfterABadResult: the results of other finished chunks are checked by
// themselves; an unfinished chunk is lost.
func TestFinishedChunksAreAcceptedAfterABadResult(t *testing.T) {
	e, blocks, chunks := newRig(t, 3, time.Hour)
	rnd := rand.New(rand.NewPCG(4, 4))
	blocks[2].hang.Store(true)
	for i, c := range chunks[:3] {
		fill(c, rnd, maxChunk)
		e.Submit(c)
		for i < 2 && !e.mailbox.slots[i].finished() {
			time.Sleep(time.Microsecond)
		}
	}
	e.mailbox.slots[0].results[7] = batch.Result{Verdict: batch.Lost}
	for i, c := range chunks[:3] {
		if !e.Done(c) {
			t.Fatalf("chunk %d is not done", i)
		}
		for k, r := range c.Out[:c.N] {
			switch bad := i == 0 && k == 7; {
			case i == 2 && r.Verdict != batch.Lost, bad && r.Verdict != batch.Drop(batch.GPUBadResult), i < 2 && !bad && r.Verdict.Action() != batch.ActionForward:
				t.Fatalf("chunk %d, packet %d: %v", i, k, r.Verdict)
			}
		}
	}
	if err := e.state.err(); err == nil || causeOf(err) != CauseBadResult {
		t.Errorf("the device is out for %v", err)
	}
}
