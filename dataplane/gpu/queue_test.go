package gpu

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
)

// queueRig is a passesRig whose blocks have two slots, and a GPU that serves them in turn: one tile at a time, of any block. It has the
// ticket lock of kernel/ticket_lock.h.
type queueRig struct {
	*passesRig
	next    []uint32 // by block: number of the next tile
	serving uint32   // ticket that has the lock
	holds   bool     // the host holds it
	waited  int      // tiles that waited for the host
}

const tilesEach = 4 // of a chunk of 16 packets

func newQueueRig(t *testing.T, blocks, chunks int) *queueRig {
	t.Helper()
	r := &queueRig{passesRig: newPassesRig(t, blocks, chunks), next: make([]uint32, blocks)}
	m := got(newMailbox(blocks, gatewayDepth, 1))(t)
	t.Cleanup(func() { m.Close() })
	m.prepare(blocks)
	r.e.mailbox, r.e.timeout, r.e.limit = m, 1<<40, 1<<40
	r.e.ipsec = newIPsecPath(chunks, 16, maxKeys)
	r.e.tiling.securedBatch = 16 / tilesEach * (142 + keyRoom)
	r.addLender(numbersOfOneSA())
	for b := range r.next {
		r.next[b] = atomic.LoadUint32(m.slots[b*gatewayDepth].first)
	}
	return r
}

// serve serves the next tile of a block, and reports whether it has ended one: it is posted, and waits for nothing. For packets for
// which host is true, and those of the chunk behind them, the device assigns no numbers.
func (r *queueRig) serve(b int, host func(i int) bool) bool {
	m, number := r.e.mailbox, r.next[b]
	slot := uint16(b*gatewayDepth) + uint16(number%gatewayDepth)
	s := &m.slots[slot]
	if uint32(s.descriptors[0]) != number {
		return false
	}
	f, tile := r.owner(slot)
	switch {
	case f.pass == firstPass && !f.assignsSeqs():
		r.finishTile(f, tile, forHost)
	case f.pass == firstPass:
		word := uint32(s.descriptors[cacheLineWords] >> 32)
		ticket, waits := word%tickets, word&lockWaits != 0
		if r.serving != ticket {
			return false
		}
		if r.holds && waits {
			if r.waited++; m.released[0] != ticket {
				return false
			}
			r.holds = false
		}
		r.serving += uint32(s.batches)
		f.expected = esp.Expected{First: 1}
		r.answerTile(f, tile, func(i int) bool { r.holds = r.holds || host(i); return r.holds })
		f.expected = esp.Expected{}
	default:
		r.finishTile(f, tile, batch.Result{})
	}
	r.next[b]++
	return true
}

// submitToClassify submits chunk k for the device to find tunnels only. Behind it, a chunk to which the device assigns numbers waits for its
// last pass while it has slots already.
func (r *queueRig) submitToClassify(k int) *flight {
	r.e.traffic[0].assigning.seen = 0
	return r.submitWith(k, findMode{fixed: true}, findMode{on: true, fixed: true})
}

// owner returns the chunk and the tile that are in a slot.
func (r *queueRig) owner(slot uint16) (*flight, int) {
	for i := range r.e.inFlight {
		f := &r.e.inFlight[i]
		if k := slices.Index(f.slots[:f.tiles], slot); k >= f.finished && f.placement == ExecutedOnGPU && (f.pass == firstPass || f.pass == lastPass) {
			return f, k
		}
	}
	r.Fatalf("slot %d has a tile of no chunk", slot)
	return nil, 0
}

// TestTilesQueueBehindThoseOfTheirBlock: if few blocks are free. Every chunk ends, with packets of the host or without, whichever block is
// served next.
func TestTilesQueueBehindThoseOfTheirBlock(t *testing.T) {
	const blocks, chunks = 12, 8
	for seed := range uint64(40) {
		r, rnd := newQueueRig(t, blocks, chunks), rand.New(rand.NewPCG(seed, 1))
		free, last := []int{}, 0
		for k := range chunks {
			free = append(free, k)
		}
		done, queued, lastPasses, idle, order := 0, 0, 0, 0, []int{}
		for done < 400 {
			if idle++; idle > 100_000 {
				t.Fatalf("seed %d: nothing ends any more, after %d chunks: ticket %d has the lock, the host holds it: %v, and has released it at %d; device: %v", seed, done, r.serving, r.holds, r.e.mailbox.released[0], r.e.state.err())
			}
			switch what := rnd.IntN(2 + blocks); {
			case what == 0 && len(free) > 0 && r.e.Ready(0):
				k := free[0]
				free, order = free[1:], append(order, k)
				submit := r.submitToAssign
				if rnd.IntN(8) == 0 {
					submit = r.submitToClassify
				}
				if f := submit(k); f.placement != ExecutedOnGPU || f.tiles != tilesEach {
					t.Fatalf("seed %d: placement %d of chunk %d, %d tiles, device: %v", seed, f.placement, done, f.tiles, r.e.state.err())
				}
				for b := range r.e.mailbox.blocks {
					queued += max(0, r.e.mailbox.blocks[b].used-1)
				}
			case what == 1 && len(order) > 0:
				c := r.chunks[order[0]]
				if r.e.inFlight[0].pass == lastPass {
					lastPasses++
				}
				if !r.e.Done(c) {
					continue
				}
				for i, out := range c.Out[:c.N] {
					if out.Verdict != batch.Forward(1) {
						t.Fatalf("seed %d: packet %d of chunk %d: %v, device: %v", seed, i, done, out.Verdict, r.e.state.err())
					}
				}
				free, order, done, idle = append(free, order[0]), order[1:], done+1, 0
			case what > 1:
				first := rnd.IntN(60)
				r.serve(what-2, func(i int) bool { return i == first })
			}
		}
		for len(order) > 0 { // the rest
			if idle++; idle > 100_000 {
				t.Fatalf("seed %d: nothing ends any more, at the end", seed)
			}
			r.serve(rnd.IntN(blocks), none)
			if r.e.Done(r.chunks[order[0]]) {
				order, last = order[1:], last+1
			}
		}
		if queued == 0 || lastPasses == 0 || r.waited == 0 || busy(r.e) != 0 || r.e.owned != 0 || r.e.lanes[0] != (laneChunks{slots: tilesEach, size: r.e.lanes[0].size}) {
			t.Errorf("seed %d: %d tiles queued, %d last passes, %d waits for the host; slots %b in use, %d owned, %+v", seed, queued, lastPasses, r.waited, busy(r.e), r.e.owned, r.e.lanes[0])
		}
	}
}

// TestQueueLimits: the chunk that follows waits instead.
func TestQueueLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *queueRig)
		want   bool
	}{
		"behind a first pass":       {func(*queueRig) {}, true},
		"behind a last pass":        {func(r *queueRig) { r.e.inFlight[0].pass = lastPass }, false},
		"behind a chunk that waits": {func(r *queueRig) { r.e.inFlight[0].pass = waiting }, false},
		"express":                   {func(r *queueRig) { r.e.lastLane = 1 }, false},
		"too many bytes":            {func(r *queueRig) { r.e.lanes[0].bytes = queuedBytes }, false},
		"too many slots":            {func(r *queueRig) { r.e.lanes[0].used = 5 }, false},
		"a second chunk":            {func(r *queueRig) { r.e.pool.workers.Store(2) }, true},
		"a third chunk":             {func(r *queueRig) { r.e.pool.workers.Store(2); r.e.lanes[0].used = 4 }, false},
		"more blocks than a share":  {func(r *queueRig) { r.e.owned = 5 }, false},
		"two tiles in each block":   {func(r *queueRig) { r.e.mailbox.blocks[1].used = 2 }, false},
		"a slot for each block":     {func(r *queueRig) { r.e.mailbox.depth = 1 }, false},
	} {
		r := newQueueRig(t, 4, 2)
		r.e.tiling.securedBatch = 8 * (142 + keyRoom) // two tiles
		f := r.submitToAssign(0)
		others := r.e.pool.take(nil, blockRequest{n: 4})
		if f.tiles != 2 || len(others) != 2 {
			t.Fatalf("%d tiles, %d blocks are free", f.tiles, len(others))
		}
		c.change(r)
		if got := r.e.Ready(0); got != c.want {
			t.Errorf("%s: ready: %v", name, got)
		}
	}
}

// TestQueuedTilesOfAnAbandonedChunkKeepTheirBlocks: until the GPU has ended both tiles of each.
func TestQueuedTilesOfAnAbandonedChunkKeepTheirBlocks(t *testing.T) {
	r := newQueueRig(t, 4, 2)
	r.submitToAssign(0)
	if f := r.submitToAssign(1); f.placement != ExecutedOnGPU || r.e.owned != 4 || r.e.mailbox.blocks[3].used != 2 {
		t.Fatalf("placement %d, %d blocks are owned, slots in use: %+v", f.placement, r.e.owned, r.e.mailbox.blocks)
	}
	lost := slices.Concat(r.e.inFlight[0].slots[:tilesEach], r.e.inFlight[1].slots[:tilesEach])
	r.e.timeout, r.e.limit = 1, 1
	for k, c := range r.chunks {
		if await(r.e, c); c.Out[0].Verdict != batch.Lost {
			t.Fatalf("chunk %d: %v", k, c.Out[0].Verdict)
		}
	}
	for i, s := range lost {
		if r.e.Quiesced() || r.e.pool.free(0) != 0 {
			t.Fatalf("%d blocks are free with %d tiles of 8 finished", r.e.pool.free(0), i)
		}
		r.e.mailbox.slots[s].report()
	}
	if !r.e.Quiesced() || r.e.pool.free(0) != 4 || r.e.owned != 0 {
		t.Errorf("%d blocks are free in the end, %d are owned", r.e.pool.free(0), r.e.owned)
	}
}
