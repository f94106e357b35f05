package gpu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
)

// decide has the engine decide on a chunk of empty frames, and returns which engine
// did: blocks forward every packet, the CPU engine drops empty ones.
func decide(t *testing.T, e *Engine, c *batch.Chunk) string {
	t.Helper()
	c.N = 3
	for i := range c.N {
		c.In[i] = batch.Frame{Addr: 2, Len: 60}
	}
	e.Submit(c)
	await(e, c)
	switch v := c.Out[2].Verdict; v {
	case batch.Forward(1):
		return "gpu"
	case batch.Drop(batch.EtherType):
		return "cpu"
	case batch.Lost:
		return "lost"
	default:
		t.Fatalf("verdict %v", v)
		return ""
	}
}

// A GPU that was late, and finished later, is used again after the pause, with all
// its slots; what was lost stays lost.
func TestALateGPUComesBack(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, 100*time.Millisecond)
	rnd := rand.New(rand.NewPCG(1, 1))
	for round := range uint64(3) {
		for _, b := range blocks {
			b.hang.Store(true)
		}
		for _, c := range chunks[:2] {
			fill(c, rnd, 7)
			e.Submit(c)
		}
		await(e, chunks[0])
		await(e, chunks[1])
		out := time.Now()
		for _, b := range blocks {
			b.hang.Store(false)
			for !b.finished() {
				time.Sleep(time.Microsecond)
			}
		}
		if by := decide(t, e, chunks[2]); by != "cpu" && time.Since(out) < pause {
			t.Errorf("before the pause is over, the %s decides", by)
		}
		for decide(t, e, chunks[2]) == "cpu" {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(out); took < e.absence.pause-5*time.Millisecond { // out is some time after the pause began
			t.Errorf("outage %d: back after %v, the pause is %v", round+1, took, e.absence.pause)
		}
		if e.Name() != "gpu" || e.busy.Load() != 0 || e.lost.Load() != 0 {
			t.Errorf("it is back: %s, slots %b in use, %b lost", e.Name(), e.busy.Load(), e.lost.Load())
		}
		for _, c := range chunks[:2] {
			if v := c.Out[6].Verdict; v != batch.Lost {
				t.Errorf("what was lost is %v now", v)
			}
		}
		if begun, ended := e.absence.begun.Load(), e.absence.ended.Load(); begun != round+1 || ended != round+1 {
			t.Errorf("taken out %d times, back %d times, want %d", begun, ended, round+1)
		}
	}
	for _, c := range chunks[:2] { // both slots, at once
		fill(c, rnd, 9)
		e.Submit(c)
	}
	for _, c := range chunks[:2] {
		await(e, c)
		if want := batch.Forward(c.In[8].Port + 1); c.Out[8].Verdict != want {
			t.Errorf("verdict %v, want %v", c.Out[8].Verdict, want)
		}
	}
}

// While one chunk that was given up is not finished, the GPU stays out: whatever
// else it has finished, and however long that is ago.
func TestAGPUStaysOutUntilItHasFinishedAll(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, 100*time.Millisecond)
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, b := range blocks {
		b.hang.Store(true)
	}
	for _, c := range chunks[:2] {
		fill(c, rnd, 7)
		e.Submit(c)
	}
	await(e, chunks[0])
	await(e, chunks[1])
	blocks[0].hang.Store(false)
	for start := time.Now(); time.Since(start) < 4*pause; time.Sleep(time.Millisecond) {
		if by := decide(t, e, chunks[2]); by != "cpu" {
			t.Fatalf("the %s decides", by)
		}
	}
	blocks[1].hang.Store(false)
	for start := time.Now(); decide(t, e, chunks[2]) == "cpu"; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("it does not come back")
		}
	}
}

// A chunk of which only some quads were answered is lost as a whole, and its frames are as they
// were; the rest, when it comes, is that of no later chunk.
func TestAHalfAnsweredChunkIsLost(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	b, c := blocks[0], chunks[0]
	b.quick.Store(1 << 0)
	b.late.Store(1 << 1) // and this one it leaves
	submit := func() {
		c.N = 2 * quadFrames
		for i := range c.N {
			c.In[i] = batch.Frame{Addr: uint32(i)*128 + 2, Len: 60}
		}
		e.Submit(c)
	}
	submit()
	for start := time.Now(); b.slot.answered != 1; time.Sleep(time.Millisecond) {
		if e.Done(c) || time.Since(start) > 10*time.Second {
			t.Fatalf("parts answered: %b, want the first", b.slot.answered)
		}
	}
	e.timeout = 0
	await(e, c)
	e.timeout = time.Minute
	for i, r := range c.Out[:c.N] {
		if r.Verdict != batch.Lost {
			t.Fatalf("packet %d: %v, want lost", i, r.Verdict)
		}
	}
	if !bytes.Equal(e.umem, make([]byte, len(e.umem))) {
		t.Error("frames of a chunk that is lost were changed")
	}
	b.late.Store(0)
	for start := time.Now(); c.Out[0].Verdict.Action() != batch.ActionForward; time.Sleep(time.Millisecond) {
		submit()
		if await(e, c); time.Since(start) > 10*time.Second {
			t.Fatal("it does not come back")
		}
	}
	for i, r := range c.Out[:c.N] { // the first quad by answers, as the rig makes them
		if answered := r.Len == replyLen(i) || r.Verdict == batch.Hold; answered != (i < quadFrames) {
			t.Fatalf("packet %d when it is back: %+v", i, r)
		}
	}
}

// A device that failed for good does not come back, whatever it has finished.
func TestAFailedDeviceStaysOut(t *testing.T) {
	e, _, chunks := newRig(t, 2, time.Minute)
	if by := decide(t, e, chunks[0]); by != "gpu" {
		t.Fatalf("the %s decides", by)
	}
	e.health.fail(errors.New("its tables are full"))
	for start := time.Now(); time.Since(start) < 2*pause; time.Sleep(time.Millisecond) {
		if by := decide(t, e, chunks[0]); by != "cpu" {
			t.Fatalf("the %s decides", by)
		}
	}
}

// Pauses double while the GPU fails again, up to the longest, and begin anew when
// it has worked for as long as that.
func TestPausesDouble(t *testing.T) {
	a := &absence{first: time.Second}
	for i, step := range []struct{ worked, want time.Duration }{
		{0, 1}, {0, 2}, {1, 4}, {59, 8}, {0, 16}, {0, 32}, {0, 60}, {0, 60}, {59, 60}, {61, 1}, {61, 1}, {2, 2},
	} {
		a.back -= step.worked * time.Second
		a.begin(errors.New("late"))
		if a.pause != step.want*time.Second {
			t.Errorf("pause %d, after %v s of work: %v, want %v s", i+1, int(step.worked), a.pause, int(step.want))
		}
		if rest := a.until - batch.Clock(); rest > a.pause || rest < a.pause-time.Second/2 {
			t.Errorf("pause %d lasts for %v more, want %v", i+1, rest, a.pause)
		}
		a.end()
	}
}

// The GPU has quiesced when it has finished every chunk that was given up, or when its
// context was destroyed; whether the device may be used again does not matter.
func TestQuiescesWhenAllLostChunksAreFinished(t *testing.T) {
	for _, destroyed := range []bool{false, true} {
		e, blocks, chunks := newRig(t, 2, 10*time.Millisecond)
		rnd := rand.New(rand.NewPCG(1, 1))
		if !e.Quiesced() {
			t.Error("not quiesced before anything was lost")
		}
		for _, b := range blocks {
			b.hang.Store(true)
		}
		for _, c := range chunks[:2] {
			fill(c, rnd, 7)
			e.Submit(c)
		}
		await(e, chunks[0])
		await(e, chunks[1])
		e.health.fail(errors.New("a fault"))
		if chunks[0].Out[0].Verdict != batch.Lost || e.Quiesced() {
			t.Fatal("quiesced while the GPU has both chunks")
		}
		if destroyed {
			e.health.destroyed.Store(true)
		} else {
			blocks[0].hang.Store(false)
			for start := time.Now(); time.Since(start) < 20*time.Millisecond; time.Sleep(time.Millisecond) {
				if e.Quiesced() {
					t.Fatal("quiesced while the GPU has a chunk")
				}
			}
			blocks[1].hang.Store(false)
		}
		for start := time.Now(); !e.Quiesced(); time.Sleep(time.Millisecond) {
			if time.Since(start) > 10*time.Second {
				t.Fatal("it does not quiesce")
			}
		}
		if e.lost.Load() != 0 || e.busy.Load() != 0 || e.usable() {
			t.Errorf("slots %b lost, %b in use; usable: %v", e.lost.Load(), e.busy.Load(), e.usable())
		}
	}
}
