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

// lay puts the frames of a chunk where their heads are lines, and nowhere twice.
func lay(c *batch.Chunk, rnd *rand.Rand, n int) {
	fill(c, rnd, n)
	for i, at := range rnd.Perm(1 << 13)[:n] {
		c.In[i] = batch.Frame{Addr: uint32(at*128 + 2), Len: 60, Port: 3}
	}
}

// chunksOf returns how many chunks each block has had since it was asked last.
func chunksOf(blocks []*block) (had []int64) {
	for _, b := range blocks {
		had = append(had, b.had.Swap(0))
	}
	return had
}

// A chunk that finds its device idle is shared by blocks, up to three, of as many slots as
// leave one for what follows; a larger one is one block's, and comes without heads.
func TestAChunkInAHurryIsShared(t *testing.T) {
	for slots, shares := range map[int]int{1: 1, 3: 1, 4: 2, 5: 2, 6: 3, 12: 3} {
		e, blocks, chunks := newRig(t, slots, time.Minute)
		rnd := rand.New(rand.NewPCG(1, 2))
		c := chunks[0]
		for n := 1; n <= maxChunk; n++ {
			lay(c, rnd, n)
			want, heads := make([]int64, slots), make([]int, slots)
			if used := (n + hurryFrames - 1) / hurryFrames; used > shares {
				want[0] = 1
			} else {
				for k := range used {
					want[k], heads[k] = 1, n*(k+1)/used-n*k/used
				}
			}
			e.Submit(c)
			await(e, c)
			if got := chunksOf(blocks); !slices.Equal(got, want) {
				t.Fatalf("%d slots, %d packets: the blocks had %d chunks, want %d", slots, n, got, want)
			}
			for k, b := range blocks {
				if got := int(b.heads.Swap(0)); got != heads[k] {
					t.Fatalf("%d slots, %d packets: %d heads came along to block %d, want %d", slots, n, got, k, heads[k])
				}
			}
			for i, f := range c.In[:n] {
				if want := (batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(f.Port + 1)}); c.Out[i] != want {
					t.Fatalf("%d slots, packet %d of %d: %+v, want %+v", slots, i, n, c.Out[i], want)
				}
			}
			if e.busy.Load() != 0 || len(e.flights) != 0 {
				t.Fatalf("%d slots, %d packets: slots %b are busy when the chunk is done", slots, n, e.busy.Load())
			}
		}
	}
}

// Shares are answered, or are not, each by itself, and what follows a shared chunk is not in a hurry.
func TestSharesAreAnswered(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	c, next := chunks[0], chunks[1]
	for round := range 500 {
		n := hurryFrames + 1 + rnd.IntN((maxShares-1)*hurryFrames)
		shares := (n + hurryFrames - 1) / hurryFrames
		for _, b := range blocks {
			b.quick.Store(rnd.Uint32N(8) | rnd.Uint32N(8))
		}
		lay(c, rnd, n)
		lay(next, rnd, 1+rnd.IntN(hurryFrames))
		e.Submit(c)
		e.Submit(next)
		await(e, next)
		await(e, c)
		want := make([]int64, len(blocks))
		for k := range shares + 1 {
			want[k] = 1
		}
		if got := chunksOf(blocks); !slices.Equal(got, want) {
			t.Fatalf("round %d, %d packets and %d: the blocks had %d chunks, want %d", round, n, next.N, got, want)
		}
		if blocks[shares].heads.Load() != 0 {
			t.Fatalf("round %d: heads came along behind a chunk of %d packets", round, n)
		}
		for k := range shares {
			first := n * k / shares
			for i := first; i < n*(k+1)/shares; i++ {
				f, local := c.In[i], i-first
				want := batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(f.Port + 1)}
				if blocks[k].quick.Load()>>(local/quadFrames)&1 != 0 {
					want = batch.Result{Addr: f.Addr, Len: replyLen(local), Verdict: batch.Forward(uint16(local))}
					if local%3 == 2 {
						want.Addr, want.Verdict = uint32(local), batch.Hold
					} else if !bytes.HasPrefix(e.umem[f.Addr:], []byte{byte(local), 0, 0, 0, 0, 0, 0xbb}) {
						t.Fatalf("round %d, packet %d of %d: % x", round, i, n, e.umem[f.Addr:][:8])
					}
				}
				if c.Out[i] != want {
					t.Fatalf("round %d, packet %d of %d, of share %d: %+v, want %+v", round, i, n, k, c.Out[i], want)
				}
			}
		}
	}
}

// A chunk is lost with any of its shares, and none of its slots is used before all have let go.
func TestALateShareLosesTheChunk(t *testing.T) {
	for late := range maxShares {
		e, blocks, chunks := newRig(t, 8, 5*time.Millisecond)
		rnd := rand.New(rand.NewPCG(1, 2))
		c := chunks[0]
		lay(c, rnd, maxShares*hurryFrames)
		blocks[late].hang.Store(true)
		e.Submit(c)
		await(e, c)
		for i, r := range c.Out[:c.N] {
			if r.Verdict != batch.Lost {
				t.Fatalf("share %d is late: packet %d has %v, want it lost", late, i, r.Verdict)
			}
		}
		if e.Name() != "cpu" || e.busy.Load() != 1<<maxShares-1 {
			t.Fatalf("share %d is late: the engine is %s, and slots %b are busy", late, e.Name(), e.busy.Load())
		}
		time.Sleep(2 * pause)
		lay(c, rnd, 1)
		e.Submit(c)
		await(e, c)
		if e.Name() != "cpu" {
			t.Fatalf("share %d is late: the engine is %s before the GPU has let go", late, e.Name())
		}
		e.timeout = time.Minute // what comes now may take its time
		blocks[late].hang.Store(false)
		for !blocks[late].slot.finished() {
			time.Sleep(time.Microsecond)
		}
		lay(c, rnd, maxShares*hurryFrames)
		e.Submit(c)
		await(e, c)
		if e.Name() != "gpu" || c.Out[c.N-1].Verdict != batch.Forward(4) || e.busy.Load() != 0 {
			t.Fatalf("share %d was late: the engine is %s, %v, slots %b are busy", late, e.Name(), c.Out[c.N-1].Verdict, e.busy.Load())
		}
	}
}

// Shares are taken over as they come: once each, and each by the tables of then. One that
// is answered by others is the CPU's, and is so once, though the chunk is asked for again.
func TestSharesAreTakenOverOnce(t *testing.T) {
	for stale := range maxShares {
		e, blocks, chunks := newRig(t, 8, time.Minute)
		c := chunks[0]
		lay(c, rand.New(rand.NewPCG(1, 2)), maxShares*hurryFrames)
		for _, b := range blocks {
			b.quick.Store(7)
			b.hang.Store(true)
		}
		e.Submit(c)
		for k := range maxShares {
			blocks[k].turns.Store(e.turns.Load())
			if k == stale {
				e.turns.Add(1)
			}
			if e.Done(c) {
				t.Fatalf("the chunk is done with %d of %d shares", k, maxShares)
			}
			blocks[k].hang.Store(false)
			for start := time.Now(); k < maxShares-1 && e.flights[0].taken == k; time.Sleep(time.Microsecond) {
				if e.Done(c) || time.Since(start) > 10*time.Second {
					t.Fatalf("share %d is not taken over, or the chunk is done", k)
				}
			}
			first := k * hurryFrames
			if k < maxShares-1 {
				c.Out[first].Len = 7 // whoever takes it over again, changes that
			}
		}
		await(e, c)
		for k := range maxShares {
			first := k * hurryFrames
			if got := c.Out[first].Len; k < maxShares-1 && got != 7 {
				t.Errorf("share %d was taken over again: %+v", k, c.Out[first])
			}
			if by, want := c.Out[first+1].Verdict, batch.Forward(1); (by == want) != (k != stale) {
				t.Errorf("share %d is stale: packet 1 of share %d has %v", stale, k, by)
			}
		}
	}
}

// A fault loses what the GPU has not finished, whole chunks, and no other: not one that was
// finished and not asked for.
func TestAFaultBetweenShares(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	c, next := chunks[0], chunks[1]
	lay(c, rnd, maxShares*hurryFrames)
	lay(next, rnd, 10)
	blocks[1].hang.Store(true)
	e.Submit(c)
	e.Submit(next)
	for e.Done(c); e.flights[0].taken != 1; time.Sleep(time.Microsecond) {
		e.Done(c)
	}
	if inFlight, lost := e.chunks(); inFlight != 2 || lost != 0 {
		t.Errorf("%d chunks are in flight, %d lost, of two in four slots", inFlight, lost)
	}
	for !blocks[maxShares].slot.finished() || !blocks[2].slot.finished() {
		time.Sleep(time.Microsecond)
	}
	e.health.fail(errors.New("an illegal address"))
	if !e.Done(c) || !e.Done(next) {
		t.Fatal("chunks wait for a device that failed")
	}
	for i, r := range c.Out[:c.N] {
		if r.Verdict != batch.Lost {
			t.Fatalf("packet %d is %v, want it lost with share 1", i, r.Verdict)
		}
	}
	if v := next.Out[9].Verdict; v != batch.Forward(4) || e.byGPU.Load() != 1 {
		t.Errorf("the chunk that was finished has %v; %d were the GPU's", v, e.byGPU.Load())
	}
	if inFlight, lost := e.chunks(); inFlight != 0 || lost != 1 || e.lost.Load() != 1<<maxShares-1 {
		t.Errorf("%d chunks are in flight, %d lost, in slots %b", inFlight, lost, e.lost.Load())
	}
}

// A slot is of a chunk of its own again, when it was a share's.
func TestSlotsOfSharesAreCountedAnew(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	lay(chunks[0], rnd, maxShares*hurryFrames)
	e.Submit(chunks[0])
	if inFlight, _ := e.chunks(); inFlight != 1 {
		t.Errorf("a chunk with %d slots counts as %d", maxShares, inFlight)
	}
	await(e, chunks[0])
	for _, b := range blocks {
		b.hang.Store(true)
	}
	for i, c := range chunks { // 9 chunks, and the last finds no slot
		fill(c, rnd, 1)
		c.In[0] = batch.Frame{Addr: 2, Len: 60}
		e.Submit(c)
		if inFlight, _ := e.chunks(); inFlight != min(i+1, 8) {
			t.Errorf("%d chunks count as %d", i+1, inFlight)
		}
	}
	for _, b := range blocks {
		b.hang.Store(false)
	}
	for _, c := range chunks {
		await(e, c)
	}
	if e.byGPU.Load() != 9 || e.unplaced.Load() != 1 || e.byCPU.Load() != 0 {
		t.Errorf("%d chunks were the GPU's, %d found no slot, %d the GPU out", e.byGPU.Load(), e.unplaced.Load(), e.byCPU.Load())
	}
}

// Where a kernel is launched for each chunk, it is for the whole of it, and no heads come along.
func TestALaunchIsOfAWholeChunk(t *testing.T) {
	e, blocks, chunks := newRig(t, 8, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	var launched []int
	e.launch = func(slot int, seq uint32, n int) error { // the blocks look by themselves
		launched = append(launched, n)
		return nil
	}
	sizes := []int{1, hurryFrames, hurryFrames + 1, maxShares * hurryFrames}
	for _, n := range sizes {
		lay(chunks[0], rnd, n)
		e.Submit(chunks[0])
		await(e, chunks[0])
		if heads := blocks[0].heads.Load(); heads != 0 {
			t.Errorf("%d heads of %d packets came along", heads, n)
		}
	}
	if !slices.Equal(launched, sizes) {
		t.Errorf("launched were chunks of %d packets, want %d", launched, sizes)
	}
}
