package gpu

import (
	"errors"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// TestGatewayWaitsForSlots: while the GPU has a chunk of the worker and no free slot, unless the GPU is out of use, or
// the CPU is the usual engine.
func TestGatewayWaitsForSlots(t *testing.T) {
	r := newPassesRig(t, 1, 2)
	expect := func(what string, want bool) {
		t.Helper()
		if got := r.e.Ready(0); got != want {
			t.Errorf("%s: ready: %v", what, got)
		}
	}
	expect("at the start", true)
	f := r.submit(0, true)
	expect("without a free slot", false)
	r.e.chooser = choice.New()
	expect("with the CPU as the usual engine", true)
	r.e.chooser = nil
	r.finish(f, forHost)
	r.e.Done(r.chunks[0])
	expect("in the last pass", false)
	r.finish(&r.e.inFlight[0], forHost)
	if !r.e.Done(r.chunks[0]) {
		t.Fatal("the chunk is not done")
	}
	expect("with a free slot", true)

	taken := r.e.pool.take(nil, blockRequest{n: 1})
	expect("with the only slot in use by another worker", true)
	r.e.pool.put(taken)
	r.submit(1, true)
	r.e.state.fail(errors.New("for the test"))
	expect("after a failure", true)
	await(r.e, r.chunks[1])
}

// TestSubmitWaitsForSlots: Ready has found a slot free, and another worker has taken it. The worker's own chunk frees one, unless the
// CPU may execute the chunk. An engine that chooses waits if the GPU is the usual engine.
func TestSubmitWaitsForSlots(t *testing.T) {
	for name, c := range map[string]struct {
		change func(e *Engine)
		want   Placement
	}{
		"GPU":                  {func(*Engine) {}, ExecutedOnGPU},
		"auto, GPU":            {func(e *Engine) { e.chooser, e.traffic[0].class = overloaded(t), choice.HMAC }, ExecutedOnGPU},
		"auto, CPU":            {func(e *Engine) { e.chooser, e.traffic[0].class = choice.New(), choice.HMAC }, NoFreeSlot},
		"express":              {func(e *Engine) { e.lastLane = 1 }, NoFreeSlot},
		"plain":                {func(e *Engine) { e.lanes[0].plain = true }, NoFreeSlot},
		"few slots":            {func(e *Engine) { e.reserved[0] = 2 }, NoFreeSlot},
		"after a wait in vain": {func(e *Engine) { e.slotsMissed = true }, NoFreeSlot},
	} {
		for _, last := range []bool{false, true} {
			r := newPassesRig(t, 2, 2)
			var f *flight
			if last {
				f = r.submit(0, false)
				r.finish(f, batch.Result{})
			} else {
				f = r.submitExpected(0)
				r.answer(f, none)
			}
			others := r.e.pool.take(nil, blockRequest{n: 2})
			c.change(r.e)
			f = r.submit(1, false)
			if waiting := r.e.chooser != nil && r.e.chooser.Waiting(); f.placement != c.want || waiting {
				t.Errorf("%s, last pass %v: placement %d, want %d; waits on: %v", name, last, f.placement, c.want, waiting)
			}
			if len(others) != 1 || last != (r.e.inFlight[0].pass == lastPass) {
				t.Fatalf("%d slots were free, pass %d", len(others), r.e.inFlight[0].pass)
			}
		}
	}
}

// TestWaitInVainIsNotRepeated: until there are slots again.
func TestWaitInVainIsNotRepeated(t *testing.T) {
	r := newPassesRig(t, 1, 4)
	others := r.e.pool.take(nil, blockRequest{n: 1})
	for k, missed := range []bool{true, true, false} {
		if k == 2 {
			r.e.pool.put(others)
		}
		begin := batch.Clock()
		f := r.submit(k, false)
		if waited := batch.Clock()-begin >= slotWait; f.placement == NoFreeSlot != missed || r.e.slotsMissed != missed || k == 0 && !waited {
			t.Errorf("chunk %d: placement %d, missed: %v, waited: %v", k, f.placement, r.e.slotsMissed, waited)
		}
		if !missed {
			r.finish(f, batch.Result{})
		}
		await(r.e, r.chunks[k])
	}
}

// TestWaitInVainIsNoCostOfTheCPU: which executes the chunk. The chunk counts as submitted after the wait.
func TestWaitInVainIsNoCostOfTheCPU(t *testing.T) {
	r := newPassesRig(t, 1, 1)
	r.e.pool.take(nil, blockRequest{n: 1})
	r.e.chooser, r.e.traffic[0].class = overloaded(t), choice.HMAC
	begin := batch.Clock()
	f := r.submit(0, false)
	if waited := f.choice.Submitted() - begin; f.placement != NoFreeSlot || f.choice.Engine != choice.CPU || waited < slotWait || !r.e.slotsMissed || r.e.chooser.Waiting() {
		t.Errorf("placement %d, engine %d, submitted after %v, missed: %v, waits on: %v", f.placement, f.choice.Engine, waited, r.e.slotsMissed, r.e.chooser.Waiting())
	}
}

// TestWaitEndsWithoutChunks: a worker whose chunks are done does not wait, whether or not it has others to submit.
func TestWaitEndsWithoutChunks(t *testing.T) {
	r, chooser := newPassesRig(t, 1, 2), overloaded(t) // which takes longer than the rig's timeout
	f := r.submit(0, true)
	r.e.chooser = chooser
	if r.e.Ready(0) || !r.e.chooser.Waiting() {
		t.Fatal("does not wait for a full GPU")
	}
	r.finish(f, forHost)
	r.e.Done(r.chunks[0])
	r.finish(&r.e.inFlight[0], forHost)
	if !r.e.Done(r.chunks[0]) || !r.e.Ready(0) || r.e.chooser.Waiting() {
		t.Errorf("waiting without chunks: %v", r.e.chooser.Waiting())
	}
}

// TestReservedSlotsAreNotReady: a chunk of bulk waits although slots of express are free, and express does not wait for it.
func TestReservedSlotsAreNotReady(t *testing.T) {
	r := newPassesRig(t, 4, 2)
	r.e.reserved = r.e.pool.reserved([]int{75, 25})
	r.chunks[0].Lane = 1
	f := r.submit(0, true)
	if f.tiles != 1 || r.e.Ready(1) || !r.e.Ready(0) {
		t.Errorf("%d tiles; ready for bulk: %v, for express: %v", f.tiles, r.e.Ready(1), r.e.Ready(0))
	}
	r.e.lanes[1].plain = true
	if !r.e.Ready(1) {
		t.Error("a lane with plain packets waits")
	}
	r.e.lanes[1].plain = false
	r.finish(f, forHost)
	r.e.Done(r.chunks[0])
	r.finish(&r.e.inFlight[0], forHost)
	if r.e.Done(r.chunks[0]); !r.e.Ready(1) || r.e.lanes[1].n != 0 {
		t.Errorf("%d chunks of bulk on the GPU, ready %v", r.e.lanes[1].n, r.e.Ready(1))
	}
}

// TestWaitsForHalfOfTheSlotsAtMost: on a small GPU, a chunk of many packets needs more slots than that.
func TestWaitsForHalfOfTheSlotsAtMost(t *testing.T) {
	r := newPassesRig(t, 8, 2)
	f := r.submit(0, true)
	r.e.lanes[0].slots = 7
	taken := r.e.pool.take(nil, blockRequest{n: 4 - f.tiles})
	if !r.e.Ready(0) {
		t.Errorf("not ready with %d of 8 slots", r.e.pool.free(0))
	}
	if taken = append(taken, r.e.pool.take(nil, blockRequest{n: 1})...); r.e.Ready(0) {
		t.Errorf("ready with %d of 8 slots", r.e.pool.free(0))
	}
	r.e.kernel.parked.Store(true)
	if !r.e.Ready(0) {
		t.Error("waits for a parked kernel")
	}
	r.e.kernel.parked.Store(false)
	for _, s := range taken {
		r.e.pool.put([]uint16{s})
	}
	r.finish(f, forHost)
	r.e.Done(r.chunks[0])
	r.finish(&r.e.inFlight[0], forHost)
	r.e.Done(r.chunks[0])
}

// TestPlainChunksDoNotWaitForSlots: idle cores forward what the GPU has no slot for.
func TestPlainChunksDoNotWaitForSlots(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	blocks[0].hang.Store(true)
	e.Submit(droppedChunk(chunks[0], maxChunk))
	if e.pool.free(0) != 0 || !e.Ready(0) {
		t.Errorf("%d slots are free, ready: %v", e.pool.free(0), e.Ready(0))
	}
	blocks[0].hang.Store(false)
	await(e, chunks[0])
}

// overloaded returns a chooser whose usual engine is the GPU, after full chunks that the CPU took long for, too long to be explored.
func overloaded(t *testing.T) *choice.Chooser {
	t.Helper()
	c, now := choice.New(), time.Second
	for range 2000 {
		w := choice.Work{Packets: 256, Bytes: 256 * 1408, Class: choice.HMAC, Full: true}
		chosen := c.Choose(w, choice.Situation{Now: now, Idle: time.Second})
		if chosen.Engine == choice.CPU {
			now += time.Millisecond
			c.FinishCPU(&chosen, w.Class, now)
			continue
		}
		now += 100 * time.Microsecond
		c.Block(&chosen, 10*time.Microsecond)
		c.FinishGPU(&chosen, w.Class, now-time.Microsecond, now, now)
	}
	if !c.Wait(0, now) {
		t.Fatal("the GPU is not the usual engine")
	}
	c.EndWait(now)
	return c
}

// TestWorkerWaitsForTheChunksOfTheCPU: a chunk behind those that the CPU is to execute would be the CPU's, too.
func TestWorkerWaitsForTheChunksOfTheCPU(t *testing.T) {
	r := newPassesRig(t, 4, 2)
	f := r.submit(0, true)
	taken := r.e.pool.take(nil, blockRequest{n: 4})
	r.submit(1, true)
	r.e.pool.put(taken)
	if r.e.lanes[0].deferred != 1 || r.e.Ready(0) {
		t.Fatalf("%d chunks deferred, ready: %v", r.e.lanes[0].deferred, r.e.Ready(0))
	}
	r.finish(f, forHost)
	r.e.Done(r.chunks[0])
	r.finish(f, forHost)
	if !r.e.Done(r.chunks[0]) || !r.e.Done(r.chunks[1]) || !r.e.Ready(0) {
		t.Errorf("ready when the CPU has executed its chunk: %v", r.e.Ready(0))
	}
}

// TestSaturatedLanes: behind more than 8 chunks of the lane in a row, packets are left.
func TestSaturatedLanes(t *testing.T) {
	e := &Engine{}
	submit := func(lane uint8, full, want bool) {
		t.Helper()
		if got := e.saturated(&batch.Chunk{Lane: lane, Full: full}); got != want {
			t.Fatalf("lane %d, full %v: saturated: %v", lane, full, got)
		}
	}
	for range 8 {
		submit(1, true, false)
		submit(0, false, false) // another lane
	}
	submit(1, true, true)
	submit(0, true, false)
	submit(1, true, true)
	submit(1, false, false)
	submit(1, true, false)
}

// TestChunksOfSaturatedLanesAreNotSpread: they take the blocks of the worker's share, and release the lock early if most blocks are free.
func TestChunksOfSaturatedLanesAreNotSpread(t *testing.T) {
	r := newPassesRig(t, 40, 12)
	r.e.tiling.spreadBatch = 100 // less than a packet
	r.e.pool.workers.Store(4)
	r.e.number = 3
	for k := range r.chunks {
		r.chunks[k].Full = true
		f, saturated := r.submitToAssign(k), k >= 8
		if spread := f.tiles > f.needed; spread == saturated {
			t.Errorf("chunk %d has %d tiles in place of %d", k, f.tiles, f.needed)
		}
		if share := int(f.slots[0])/r.e.mailbox.depth >= 30; share != saturated {
			t.Errorf("chunk %d has slot %d", k, f.slots[0])
		}
		if want := 40 - (r.e.owned - f.tiles); f.free != want {
			t.Errorf("chunk %d: %d blocks were free, want %d", k, f.free, want)
		}
		for _, early := range r.early(f) {
			if !early {
				t.Errorf("chunk %d releases the lock late with %d of 40 blocks free", k, f.free)
			}
		}
	}
}
