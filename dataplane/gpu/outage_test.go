package gpu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
)

// execute runs a chunk of empty frames and returns the engine that executed it: blocks forward every
// packet, the CPU engine drops empty ones.
func execute(t *testing.T, e *Engine, c *batch.Chunk) string {
	t.Helper()
	c.N = 3
	for i := range c.N {
		c.In[i] = batch.Frame{Addr: 2, Len: 60}
	}
	process(e, c)
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

// loseTwo lets the blocks hang and waits for the timeout of two chunks.
func loseTwo(e *Engine, blocks []*block, chunks []*batch.Chunk) {
	for _, b := range blocks {
		b.hang.Store(true)
	}
	for _, c := range chunks[:2] {
		fill(c, rand.New(rand.NewPCG(1, 1)), 7)
		e.Submit(c)
	}
	await(e, chunks[0])
	await(e, chunks[1])
}

// TestGPURecoversAfterTimeout: after the pause, with all slots. Lost chunks stay lost.
func TestGPURecoversAfterTimeout(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, 100*time.Millisecond)
	rnd := rand.New(rand.NewPCG(1, 1))
	for round := range uint64(3) {
		loseTwo(e, blocks, chunks)
		out := time.Now()
		for _, b := range blocks {
			b.hang.Store(false)
			for !b.finished() {
				time.Sleep(time.Microsecond)
			}
		}
		if by := execute(t, e, chunks[2]); by != "cpu" && time.Since(out) < pause {
			t.Errorf("before the end of the pause: executed by %s", by)
		}
		for execute(t, e, chunks[2]) == "cpu" {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(out); took < e.outage.pause-5*time.Millisecond { // the outage began before the pause
			t.Errorf("outage %d: back after %v, the pause is %v", round+1, took, e.outage.pause)
		}
		if e.Name() != "gpu" || busy(e) != 0 || len(e.lost) != 0 {
			t.Errorf("it is back: %s, slots %b in use, %v lost", e.Name(), busy(e), e.lost)
		}
		for _, c := range chunks[:2] {
			if v := c.Out[6].Verdict; v != batch.Lost {
				t.Errorf("what was lost is %v now", v)
			}
		}
		if begun, ended := e.outage.timeouts.Load(), e.outage.recoveries.Load(); begun != round+1 || ended != round+1 {
			t.Errorf("taken out %d times, back %d times, want %d", begun, ended, round+1)
		}
	}
	for _, c := range chunks[:2] { // both slots
		fill(c, rnd, 9)
		e.Submit(c)
	}
	for _, c := range chunks[:2] {
		await(e, c)
		if want := batch.Forward(c.In[8].Origin.Port() + 1); c.Out[8].Verdict != want {
			t.Errorf("verdict %v, want %v", c.Out[8].Verdict, want)
		}
	}
}

func TestOutageLastsUntilAllChunksAreFinished(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, 100*time.Millisecond)
	loseTwo(e, blocks, chunks)
	blocks[0].hang.Store(false)
	for start := time.Now(); time.Since(start) < 4*pause; time.Sleep(time.Millisecond) {
		if by := execute(t, e, chunks[2]); by != "cpu" {
			t.Fatalf("executed by %s", by)
		}
	}
	blocks[1].hang.Store(false)
	for start := time.Now(); execute(t, e, chunks[2]) == "cpu"; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("it does not come back")
		}
	}
}

// TestPartlyCompletedChunkIsLost: as a whole, with unchanged frames. Late completions are not used for
// later chunks.
func TestPartlyCompletedChunkIsLost(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	b, c := blocks[0], chunks[0]
	b.inline.Store(1 << 0)
	b.delay.Store(1 << 1) // and not this one
	submit := func() {
		c.N = 2 * batchFrames
		for i := range c.N {
			c.In[i] = batch.Frame{Addr: uint32(i)*128 + 2, Len: 60}
		}
		e.Submit(c)
	}
	submit()
	for start := time.Now(); b.slot.completed != 1; time.Sleep(time.Millisecond) {
		if e.Done(c) || time.Since(start) > 10*time.Second {
			t.Fatalf("completed parts: %b, want the first", b.slot.completed)
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
	b.delay.Store(0)
	for start := time.Now(); c.Out[0].Verdict.Action() != batch.ActionForward; time.Sleep(time.Millisecond) {
		submit()
		if await(e, c); time.Since(start) > 10*time.Second {
			t.Fatal("it does not come back")
		}
	}
	for i, r := range c.Out[:c.N] { // the first batch, by the rig's completions
		if answered := r.Len() == replyLen(i) || r.Verdict == batch.Hold; answered != (i < batchFrames) {
			t.Fatalf("packet %d when it is back: %+v", i, r)
		}
	}
}

func TestDeviceFailureIsFinal(t *testing.T) {
	e, _, chunks := newRig(t, 2, time.Minute)
	if by := execute(t, e, chunks[0]); by != "gpu" {
		t.Fatalf("executed by %s", by)
	}
	e.state.fail(errors.New("its tables are full"))
	for start := time.Now(); time.Since(start) < 2*pause; time.Sleep(time.Millisecond) {
		if by := execute(t, e, chunks[0]); by != "cpu" {
			t.Fatalf("executed by %s", by)
		}
	}
}

// TestPausesDouble: up to the longest pause. They restart after a working time of the longest pause.
func TestPausesDouble(t *testing.T) {
	a := &workerOutage{first: time.Second}
	for i, step := range []struct{ worked, want time.Duration }{
		{0, 1}, {0, 2}, {1, 4}, {59, 8}, {0, 16}, {0, 32}, {0, 60}, {0, 60}, {59, 60}, {61, 1}, {61, 1}, {2, 2},
	} {
		a.recovered -= step.worked * time.Second
		a.begin(errors.New("timeout"))
		if a.pause != step.want*time.Second {
			t.Errorf("pause %d, after %v s of work: %v, want %v s", i+1, int(step.worked), a.pause, int(step.want))
		}
		if rest := a.until - batch.Clock(); rest > a.pause || rest < a.pause-time.Second/2 {
			t.Errorf("pause %d lasts for %v more, want %v", i+1, rest, a.pause)
		}
		a.end()
	}
}

// TestQuiescedWaitsForAbandonedChunks: or for the destruction of the context.
func TestQuiescedWaitsForAbandonedChunks(t *testing.T) {
	for _, destroyed := range []bool{false, true} {
		e, blocks, chunks := newRig(t, 2, 10*time.Millisecond)
		if !e.Quiesced() {
			t.Error("not quiesced before anything was lost")
		}
		loseTwo(e, blocks, chunks)
		e.state.fail(errors.New("a fault"))
		if chunks[0].Out[0].Verdict != batch.Lost || e.Quiesced() {
			t.Fatal("quiesced while the GPU has both chunks")
		}
		if destroyed {
			e.state.destroyed.Store(true)
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
		if len(e.lost) != 0 || busy(e) != 0 || e.usable() {
			t.Errorf("slots %v lost, %b in use; usable: %v", e.lost, busy(e), e.usable())
		}
	}
}
