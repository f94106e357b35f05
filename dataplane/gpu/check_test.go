package gpu

import (
	"encoding/binary"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/umem"
)

// submit has the engine decide on a chunk of traffic.
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
	w.gpu.engine.Submit(c)
	for !w.gpu.engine.Done(c) {
	}
	return c
}

// Whatever a device says that cannot be right, its packets are dropped as gpu_bad_result, the
// others of the chunk have their verdicts, and the device is not used again.
func TestResultsThatCannotBeRightAreRefused(t *testing.T) {
	w := newSecuredTwins(t, securedOnHost(3900), 11)
	e := w.gpu.engine
	e.shadow = nil // which finds some of these before, as another result
	work, zero := e.launch, func(b []byte) { clear(b) }
	for _, c := range []struct {
		name string
		kind cpu.TaskKind // of the packets that it lies about
		lie  func(r *batch.Result)
		icv  func(b []byte) // nil: as it is
	}{
		{"address of another frame", cpu.Plain, func(r *batch.Result) { r.Addr ^= umem.FrameSize }, nil},
		{"address, one bit", cpu.Seal, func(r *batch.Result) { r.Addr ^= 16 }, nil},
		{"address, opened", cpu.Open, func(r *batch.Result) { r.Addr ^= 4 }, nil},
		{"address beyond memory", cpu.Open, func(r *batch.Result) { r.Addr = 0xffff_fff0 }, nil},
		{"length beyond the frame", cpu.Plain, func(r *batch.Result) { r.Len |= 0x8000 }, nil},
		{"length beyond, opened", cpu.Open, func(r *batch.Result) { r.Len |= 0x8000 }, nil},
		{"no length", cpu.Seal, func(r *batch.Result) { r.Len = 0 }, nil},
		{"port that does not exist", cpu.Seal, func(r *batch.Result) { r.Verdict = batch.Forward(4000) }, nil},
		{"adjacency that does not exist", cpu.Plain, func(r *batch.Result) { *r = batch.Result{Addr: 1 << 31, Verdict: batch.Hold} }, nil},
		{"action that does not exist", cpu.Plain, func(r *batch.Result) { r.Verdict = 0xf000 }, nil},
		{"lost", cpu.Seal, func(r *batch.Result) { r.Verdict = batch.Lost }, nil},
		{"reason that does not exist", cpu.Open, func(r *batch.Result) { r.Verdict = 0xfff }, nil},
		{"nothing", cpu.Seal, func(r *batch.Result) { *r = batch.Result{} }, nil},
		{"not sealed", cpu.Seal, nil, func(b []byte) { binary.NativeEndian.PutUint64(b, e.checker.canary) }},
		{"not sealed, held", cpu.Seal, func(r *batch.Result) { *r = batch.Result{Verdict: batch.Hold} },
			func(b []byte) { binary.NativeEndian.PutUint64(b, e.checker.canary) }},
		{"zeros instead of an ICV", cpu.Seal, nil, zero},
	} {
		e.health = &health{}
		e.checker.health = e.health
		lied := map[int]bool{}
		e.launch = func(slot int, seq uint32, n int) error {
			err := work(slot, seq, n)
			results := e.mail.slots[slot].results
			for i := range n {
				t := &e.securer.tasks[slot][i]
				if t.Kind != c.kind || results[i].Verdict.Action() != batch.ActionForward {
					continue
				}
				lied[i] = true
				if c.lie != nil {
					c.lie(&results[i])
				}
				if c.icv != nil {
					c.icv(e.checker.icvEnd(w.chunks[1].In[i], t))
				}
			}
			return err
		}
		refused := 0
		for i, r := range w.submit().Out[:securedChunk] {
			switch {
			case r.Verdict == batch.Drop(batch.GPUBadResult) && lied[i]:
				refused++
			case r.Verdict == batch.Drop(batch.GPUBadResult):
				t.Errorf("%s: packet %d is refused, and nothing is wrong with it", c.name, i)
			case lied[i] && r.Verdict.Action() != batch.ActionDrop && c.kind != cpu.Open:
				t.Errorf("%s: packet %d: %v", c.name, i, r.Verdict)
			}
		}
		err := e.health.err()
		if refused == 0 || err == nil || causeOf(err) != CauseBadResult {
			t.Errorf("%s: %d of %d packets refused; the device is out for %v", c.name, refused, len(lied), err)
		}
		byCPU := e.byCPU.Load()
		if w.submit(); e.Name() != "cpu" || e.byCPU.Load() != byCPU+1 {
			t.Errorf("%s: the device is still used", c.name)
		}
	}

	// A device that says that it is done with a chunk and did nothing: what it had said of
	// earlier packets is not taken for its results.
	e.health = &health{}
	e.checker.health = e.health
	e.launch = func(slot int, seq uint32, n int) error {
		s := &e.mail.slots[slot]
		for i := range s.parts {
			s.done[i] = seq
		}
		return nil
	}
	c, refused := w.submit(), 0
	for i, r := range c.Out[:c.N] {
		if r.Verdict == batch.Drop(batch.GPUBadResult) {
			refused++
		} else if e.securer.jobs.slots[0][i].Flags&3 != uint16(cpu.Settled) {
			t.Errorf("done, and nothing: packet %d: %v", i, r.Verdict)
		}
	}
	if refused < c.N/2 || e.Name() != "cpu" {
		t.Errorf("done, and nothing: %d of %d packets refused, the engine is %s", refused, c.N, e.Name())
	}
}
