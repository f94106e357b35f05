package gpu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
)

// lay gives the frames of a chunk aligned, distinct addresses.
func lay(c *batch.Chunk, rnd *rand.Rand, n int) {
	fill(c, rnd, n)
	for i, at := range rnd.Perm(1 << 13)[:n] {
		c.In[i] = batch.Frame{Addr: uint32(at*128 + 2), Len: 60, Origin: 3}
	}
}

// takeCounts returns the chunks of each block since the last call.
func takeCounts(blocks []*block) (had []int64) {
	for _, b := range blocks {
		had = append(had, b.chunks.Swap(0))
	}
	return had
}

// TestSmallChunksAreSplit: a chunk on an idle device is split over up to three slots, and leaves one
// free. A larger chunk has one slot and no inlined headers.
func TestSmallChunksAreSplit(t *testing.T) {
	for slots, parts := range map[int]int{1: 1, 3: 1, 4: 2, 5: 2, 6: 3, 12: 3} {
		e, blocks, chunks := newRig(t, slots, time.Minute)
		rnd := rand.New(rand.NewPCG(1, 2))
		c := chunks[0]
		for n := 1; n <= maxChunk; n++ {
			lay(c, rnd, n)
			want, headers := make([]int64, slots), make([]int, slots)
			if used := (n + inlineFrames - 1) / inlineFrames; used > parts {
				want[0] = 1
			} else {
				for k := range used {
					want[k], headers[k] = 1, n*(k+1)/used-n*k/used
				}
			}
			process(e, c)
			if got := takeCounts(blocks); !slices.Equal(got, want) {
				t.Fatalf("%d slots, %d packets: the blocks had %d chunks, want %d", slots, n, got, want)
			}
			for k, b := range blocks {
				if got := int(b.inlinedHeaders.Swap(0)); got != headers[k] {
					t.Fatalf("%d slots, %d packets: %d inlined headers for block %d, want %d", slots, n, got, k, headers[k])
				}
			}
			for i, f := range c.In[:n] {
				if want := (batch.ForwardTo(f.Origin.Port()+1, f.Addr, f.Len)); c.Out[i] != want {
					t.Fatalf("%d slots, packet %d of %d: %+v, want %+v", slots, i, n, c.Out[i], want)
				}
			}
			if busy(e) != 0 || len(e.inFlight) != 0 {
				t.Fatalf("%d slots, %d packets: slots %b are busy when the chunk is done", slots, n, busy(e))
			}
		}
	}
}

// TestPartsCompleteIndependently: and the chunk behind a split one has no inlined headers.
func TestPartsCompleteIndependently(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	c, next := chunks[0], chunks[1]
	for round := range 500 {
		n := inlineFrames + 1 + rnd.IntN((inlineTiles-1)*inlineFrames)
		parts := (n + inlineFrames - 1) / inlineFrames
		for _, b := range blocks {
			b.inline.Store(rnd.Uint32N(8) | rnd.Uint32N(8))
		}
		lay(c, rnd, n)
		lay(next, rnd, 1+rnd.IntN(inlineFrames))
		e.Submit(c)
		process(e, next)
		await(e, c)
		want := make([]int64, len(blocks))
		for k := range parts + 1 {
			want[k] = 1
		}
		if got := takeCounts(blocks); !slices.Equal(got, want) {
			t.Fatalf("round %d, %d packets and %d: the blocks had %d chunks, want %d", round, n, next.N, got, want)
		}
		if blocks[parts].inlinedHeaders.Load() != 0 {
			t.Fatalf("round %d: inlined headers behind a chunk of %d packets", round, n)
		}
		for k := range parts {
			first := n * k / parts
			for i := first; i < n*(k+1)/parts; i++ {
				f, local := c.In[i], i-first
				want := batch.ForwardTo(f.Origin.Port()+1, f.Addr, f.Len)
				if blocks[k].inline.Load()>>(local/batchFrames)&1 != 0 {
					want = batch.ForwardTo(uint16(local), f.Addr, replyLen(local))
					if local%3 == 2 {
						want = batch.MakeResult(uint32(local), want.Len(), batch.Hold)
					} else if !bytes.HasPrefix(e.umem[f.Addr:], []byte{byte(local), 0, 0, 0, 0, 0, 0xbb}) {
						t.Fatalf("round %d, packet %d of %d: % x", round, i, n, e.umem[f.Addr:][:8])
					}
				}
				if c.Out[i] != want {
					t.Fatalf("round %d, packet %d of %d, of part %d: %+v, want %+v", round, i, n, k, c.Out[i], want)
				}
			}
		}
	}
}

// TestTimeoutOfOnePartLosesTheChunk: and its slots stay busy until all parts are finished.
func TestTimeoutOfOnePartLosesTheChunk(t *testing.T) {
	for late := range inlineTiles {
		e, blocks, chunks := newRig(t, 8, 100*time.Millisecond) // other parts finish in time, also on a busy machine
		rnd := rand.New(rand.NewPCG(1, 2))
		c := chunks[0]
		lay(c, rnd, inlineTiles*inlineFrames)
		blocks[late].hang.Store(true)
		process(e, c)
		for i, r := range c.Out[:c.N] {
			if r.Verdict != batch.Lost {
				t.Fatalf("timeout of part %d: packet %d has %v, want it lost", late, i, r.Verdict)
			}
		}
		if e.Name() != "cpu" || busy(e) != (1<<inlineTiles-1)&^(1<<late-1) {
			t.Fatalf("timeout of part %d: the engine is %s, busy slots %b", late, e.Name(), busy(e))
		}
		time.Sleep(2 * pause)
		lay(c, rnd, 1)
		process(e, c)
		if e.Name() != "cpu" {
			t.Fatalf("timeout of part %d: the engine is %s before the GPU has finished", late, e.Name())
		}
		e.timeout = time.Minute // the next chunks have no deadline
		blocks[late].hang.Store(false)
		for !blocks[late].slot.finished() {
			time.Sleep(time.Microsecond)
		}
		lay(c, rnd, inlineTiles*inlineFrames)
		process(e, c)
		if e.Name() != "gpu" || c.Out[c.N-1].Verdict != batch.Forward(4) || busy(e) != 0 {
			t.Fatalf("after the timeout of part %d: the engine is %s, %v, busy slots %b", late, e.Name(), c.Out[c.N-1].Verdict, busy(e))
		}
	}
}

// TestPartsAreCollectedOnce: each when it is finished, by the table generation of then. The CPU
// executes a part of an older generation once.
func TestPartsAreCollectedOnce(t *testing.T) {
	for stale := range inlineTiles {
		e, blocks, chunks := newRig(t, 8, time.Minute)
		c := chunks[0]
		lay(c, rand.New(rand.NewPCG(1, 2)), inlineTiles*inlineFrames)
		for _, b := range blocks {
			b.inline.Store(7)
			b.hang.Store(true)
		}
		e.Submit(c)
		for k := range inlineTiles {
			blocks[k].generation.Store(e.queuedGeneration.Load())
			if k == stale {
				e.queuedGeneration.Add(1)
			}
			if e.Done(c) {
				t.Fatalf("the chunk is done with %d of %d parts", k, inlineTiles)
			}
			blocks[k].hang.Store(false)
			for start := time.Now(); k < inlineTiles-1 && e.inFlight[0].finished == k; time.Sleep(time.Microsecond) {
				if e.Done(c) || time.Since(start) > 10*time.Second {
					t.Fatalf("part %d is not collected, or the chunk is done", k)
				}
			}
			first := k * inlineFrames
			if k < inlineTiles-1 {
				c.Out[first] = batch.MakeResult(0, 7, c.Out[first].Verdict) // a second collection would change it
			}
		}
		await(e, c)
		for k := range inlineTiles {
			first := k * inlineFrames
			if got := c.Out[first].Len(); k < inlineTiles-1 && got != 7 {
				t.Errorf("part %d was collected twice: %+v", k, c.Out[first])
			}
			if by, want := c.Out[first+1].Verdict, batch.Forward(1); (by == want) != (k != stale) {
				t.Errorf("part %d is stale: packet 1 of part %d has %v", stale, k, by)
			}
		}
	}
}

// TestFaultLosesUnfinishedChunks: whole chunks, and no finished one.
func TestFaultLosesUnfinishedChunks(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	c, next := chunks[0], chunks[1]
	lay(c, rnd, inlineTiles*inlineFrames)
	lay(next, rnd, 10)
	blocks[1].hang.Store(true)
	e.Submit(c)
	e.Submit(next)
	for e.Done(c); e.inFlight[0].finished != 1; time.Sleep(time.Microsecond) {
		e.Done(c)
	}
	if inFlight, lost := e.onGPU.Load(), e.lostNow.Load(); inFlight != 2 || lost != 0 {
		t.Errorf("%d chunks are in flight, %d lost, of two in four slots", inFlight, lost)
	}
	for !blocks[inlineTiles].slot.finished() || !blocks[2].slot.finished() {
		time.Sleep(time.Microsecond)
	}
	e.state.fail(errors.New("an illegal address"))
	if !e.Done(c) || !e.Done(next) {
		t.Fatal("chunks wait for a device that failed")
	}
	for i, r := range c.Out[:c.N] {
		if r.Verdict != batch.Lost {
			t.Fatalf("packet %d is %v, want it lost with part 1", i, r.Verdict)
		}
	}
	if v := next.Out[9].Verdict; v != batch.Forward(4) || e.executed[ExecutedOnGPU].Load() != 1 {
		t.Errorf("the chunk that was finished has %v; %d were the GPU's", v, e.executed[ExecutedOnGPU].Load())
	}
	if inFlight, lost := e.onGPU.Load(), e.lostNow.Load(); inFlight != 0 || lost != 1 || len(e.lost) != inlineTiles-1 {
		t.Errorf("%d chunks are in flight, %d lost, in slots %v", inFlight, lost, e.lost)
	}
}

func TestSlotsAreReusedAfterSplitChunks(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	lay(chunks[0], rnd, inlineTiles*inlineFrames)
	e.Submit(chunks[0])
	if inFlight := e.onGPU.Load(); inFlight != 1 {
		t.Errorf("a chunk with %d slots counts as %d", inlineTiles, inFlight)
	}
	await(e, chunks[0])
	for _, b := range blocks {
		b.hang.Store(true)
	}
	for i, c := range chunks { // 9 chunks: no slot for the last
		fill(c, rnd, 1)
		c.In[0] = batch.Frame{Addr: 2, Len: 60}
		e.Submit(c)
		if inFlight := e.onGPU.Load(); inFlight != int64(min(i+1, 8)) {
			t.Errorf("%d chunks count as %d", i+1, inFlight)
		}
	}
	for _, b := range blocks {
		b.hang.Store(false)
	}
	for _, c := range chunks {
		await(e, c)
	}
	if e.executed[ExecutedOnGPU].Load() != 9 || e.executed[NoFreeSlot].Load() != 1 || e.executed[ExecutedOnCPU].Load() != 0 {
		t.Errorf("%d chunks were the GPU's, %d found no slot, %d the GPU out", e.executed[ExecutedOnGPU].Load(), e.executed[NoFreeSlot].Load(), e.executed[ExecutedOnCPU].Load())
	}
}
