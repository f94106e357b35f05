package gpu

import (
	"runtime"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// droppedChunk fills a chunk with packets that the CPU drops and the blocks of a rig forward.
func droppedChunk(c *batch.Chunk, n int) *batch.Chunk {
	c.N = n
	for i := range c.In[:n] {
		c.In[i] = batch.Frame{Addr: 2, Len: 60}
	}
	return c
}

// TestKernelRunsWhileLoadNeedsIt: an engine that chooses wakes the kernel when the load is more than the CPU
// carries easily, and no earlier; the kernel parks when the CPU has carried the load easily for Options.Park,
// although chunks keep arriving.
func TestKernelRunsWhileLoadNeedsIt(t *testing.T) {
	const after = 50 * time.Millisecond
	r := newKernelRig(t, 2, Options{Park: after, Timeout: time.Minute, Choose: true})
	c := batch.NewChunks(1, maxChunk)[0]
	few := func() { execute(t, r.engines[0], droppedChunk(c, 3)); time.Sleep(500 * time.Microsecond) }
	for round := uint64(1); round <= 2; round++ {
		for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
			few()
		}
		if s := r.State(); !s.Parked || s.Wakes != round-1 || s.KernelParked == 0 {
			t.Errorf("round %d: with little load: %+v", round, s)
		}
		droppedChunk(c, maxChunk)
		for start := time.Now(); r.State().Parked; runtime.Gosched() {
			for range 100 { // as fast as the CPU can
				process(r.engines[0], c)
			}
			if time.Since(start) > 10*time.Second {
				t.Fatalf("round %d: a load of %.2f does not wake the kernel", round, r.State().Load)
			}
		}
		for start := time.Now(); !r.State().Parked; {
			few()
			if time.Since(start) > 10*time.Second {
				t.Fatalf("round %d: a load of %.2f keeps the kernel", round, r.State().Load)
			}
		}
	}
	if s := r.State(); s.Lost+s.InFlight != 0 || s.Timeouts != 0 || s.ByCPU != 0 {
		t.Errorf("%+v", s)
	}
}

// TestChoiceIsReported: each chunk has a reason, and the predicted and measured times of both engines are
// known.
func TestChoiceIsReported(t *testing.T) {
	r := newKernelRig(t, 1, Options{Timeout: time.Minute, Choose: true})
	e, c := r.engines[0], batch.NewChunks(1, maxChunk)[0]
	for e.kernel.parked.Load() {
		runtime.Gosched()
	}
	const chunks = 3000
	for i := range chunks {
		execute(t, e, droppedChunk(c, 1+i%maxChunk))
	}
	s := r.State()
	if n := s.ByGPU + s.CPUSooner + s.CPUExplored + s.NoFreeSlot + s.KernelParked + s.ByCPU; n != chunks || s.GPUExplored > s.ByGPU {
		t.Errorf("%d of %d chunks have a reason: %+v", n, chunks, s)
	}
	if cpu := s.Times[choice.CPU]; s.CPUSooner == 0 || cpu.Measured <= 0 || cpu.Predicted <= 0 {
		t.Errorf("%d chunks of the CPU, times %+v", s.CPUSooner, cpu)
	}
	if gpu := s.Times[choice.GPU]; s.GPUExplored == 0 || gpu.Measured <= 0 || gpu.Predicted <= 0 {
		t.Errorf("%d chunks explored on the GPU, times %+v", s.GPUExplored, gpu)
	}
	if n := e.kernel.backlog.Load(); n != 0 {
		t.Errorf("a backlog of %d bytes without chunks", n)
	}
}

// TestChunkWithoutSlotIsNoChoiceOfTheCPU: the choice is taken back, so that nothing waits for the chunk. A
// chunk of the CPU's choice, because the machine stood still while the first one waited, shows nothing: it
// is tried again.
func TestChunkWithoutSlotIsNoChoiceOfTheCPU(t *testing.T) {
	for range 20 {
		e, blocks, chunks := newRig(t, 1, time.Minute)
		blocks[0].hang.Store(true)
		e.chooser, e.traffic[0].class = choice.New(), choice.HMAC
		e.Submit(droppedChunk(chunks[0], maxChunk))
		before := e.kernel.backlog.Load()
		e.traffic[0].class = choice.HMAC
		e.Submit(droppedChunk(chunks[1], maxChunk))
		placement, chosen, after := e.inFlight[1].placement, e.inFlight[1].choice, e.kernel.backlog.Load()
		blocks[0].hang.Store(false)
		await(e, chunks[0])
		await(e, chunks[1])
		if placement == CPUSooner {
			continue
		}
		if placement != NoFreeSlot || chosen.Engine != choice.CPU || chosen.Reason != choice.GPUFull || after != before || before == 0 {
			t.Errorf("a chunk without slot: placement %d, engine %d for reason %d, backlog %d, %d before", placement, chosen.Engine, chosen.Reason, after, before)
		}
		return
	}
	t.Error("20 chunks were the CPU's choice")
}
