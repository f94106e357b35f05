package gpu

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
)

// Small chunks are the CPU's while the GPU has none, and chunks leave in their order.
func TestSmallChunksAreLeftToTheCPU(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, time.Minute)
	rnd := rand.New(rand.NewPCG(3, 4))
	e.small = 10
	submit := func(c *batch.Chunk, n int) {
		fill(c, rnd, n)
		for i := range n {
			c.In[i].Addr, c.In[i].Len = 2, 60 // of nothing that the CPU would forward
		}
		e.Submit(c)
	}
	for i, n := range []int{1, 10, 11, 10, 200, 3} {
		submit(chunks[0], n)
		await(e, chunks[0])
		if byGPU := chunks[0].Out[0].Verdict.Action() == batch.ActionForward; byGPU != (n > 10) {
			t.Errorf("chunk %d, of %d packets: by the GPU: %v", i, n, byGPU)
		}
	}
	blocks[0].hang.Store(true)
	submit(chunks[0], 11)
	submit(chunks[1], 1) // while there is another
	await(e, chunks[1])
	if e.Done(chunks[0]) || chunks[1].Out[0].Verdict.Action() != batch.ActionForward {
		t.Error("a small chunk behind another is not the GPU's")
	}
	blocks[0].hang.Store(false)
	await(e, chunks[0])
	if g, c, s := e.byGPU.Load(), e.byCPU.Load(), e.bySize.Load(); g != 4 || c != 0 || s != 4 {
		t.Errorf("%d chunks by the GPU, %d as it was out, %d small ones", g, c, s)
	}
	e.absence.begin(errors.New("a test"))
	submit(chunks[0], 1)
	await(e, chunks[0])
	if c, s := e.byCPU.Load(), e.bySize.Load(); c != 1 || s != 4 {
		t.Errorf("while the GPU is out: %d chunks as it was out, %d small ones", c, s)
	}
}

// Descriptors of chunks of every size arrive, and results come back, through slots
// that had other chunks before.
func TestChunksPassTheMailbox(t *testing.T) {
	e, _, chunks := newRig(t, 2, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := 1; n <= maxChunk; n++ {
		for _, c := range chunks[:2] {
			fill(c, rnd, n)
			e.Submit(c)
		}
		for _, c := range chunks[:2] {
			await(e, c)
			for i, f := range c.In[:n] {
				if want := (batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(f.Port + 1)}); c.Out[i] != want {
					t.Fatalf("packet %d of %d: %+v, want %+v", i, n, c.Out[i], want)
				}
			}
		}
	}
}

// At low load one block has all the chunks.
func TestTheLowestFreeSlotIsTaken(t *testing.T) {
	e, blocks, chunks := newRig(t, 3, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		fill(chunks[0], rnd, 5)
		e.Submit(chunks[0])
		await(e, chunks[0])
	}
	if blocks[0].had.Load() != 10 || blocks[1].had.Load()+blocks[2].had.Load() != 0 {
		t.Errorf("the blocks had %d, %d and %d chunks", blocks[0].had.Load(), blocks[1].had.Load(), blocks[2].had.Load())
	}
}

// A chunk for which there is no slot is the CPU's, and counts as that.
func TestMoreChunksThanSlots(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 1))
	blocks[0].hang.Store(true)
	for _, c := range chunks[:2] {
		fill(c, rnd, 3)
		for i := range 3 {
			c.In[i] = batch.Frame{Addr: 0, Len: 60}
		}
		e.Submit(c)
	}
	if e.Done(chunks[0]) || !e.Done(chunks[1]) || e.unplaced.Load() != 1 || e.byCPU.Load() != 0 {
		t.Error("the second chunk waits for the first, or the first for nobody")
	}
	if got := chunks[1].Out[0].Verdict; got != batch.Drop(batch.EtherType) {
		t.Errorf("the CPU's verdict on an empty frame is %v", got)
	}
	blocks[0].hang.Store(false)
	await(e, chunks[0])
}

// A GPU that does not answer is taken out: what it has is lost, what comes after
// is the CPU's, and an answer that comes too late changes nothing.
func TestAHungGPUIsTakenOut(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, 5*time.Millisecond)
	e.absence.first = time.Minute
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, b := range blocks {
		b.hang.Store(true)
	}
	for _, c := range chunks[:2] {
		fill(c, rnd, 7)
		e.Submit(c)
	}
	start := time.Now()
	await(e, chunks[0])
	if took := time.Since(start); took < 4*time.Millisecond || took > time.Second {
		t.Errorf("it was given %v, want 5ms", took)
	}
	if !e.Done(chunks[1]) {
		t.Error("the other chunk waits on")
	}
	for _, c := range chunks[:2] {
		for _, r := range c.Out[:7] {
			if r.Verdict != batch.Lost {
				t.Fatalf("verdict %v, want lost", r.Verdict)
			}
		}
	}
	if o := e.absence.outage.Load(); o == nil || !strings.Contains(o.Why.Error(), "did not finish 7 packets within 5ms") || !e.health.ok() {
		t.Errorf("the outage is %v, the device's %v", o, e.health.err())
	}
	if e.Name() != "cpu" {
		t.Errorf("the engine is called %q", e.Name())
	}
	late := chunks[0]
	fill(late, rnd, 4)
	for i := range 4 {
		late.In[i] = batch.Frame{Addr: 0, Len: 60}
	}
	e.Submit(late)
	for _, b := range blocks {
		b.hang.Store(false)
		for !b.finished() {
			time.Sleep(time.Microsecond)
		}
	}
	if !e.Done(late) || late.Out[3].Verdict != batch.Drop(batch.EtherType) || late.Out[5].Verdict != batch.Lost {
		t.Errorf("the next chunk: %v", late.Out[:7])
	}
}

// The time that a GPU is given begins when it has the chunk, however long the
// worker's thread stood still before.
func TestAWorkerThatStoodStillBlamesNoGPU(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	blocks[0].hang.Store(true)
	fill(chunks[0], rand.New(rand.NewPCG(1, 1)), 5)
	chunks[0].Submitted -= time.Hour
	e.Submit(chunks[0])
	if e.Done(chunks[0]) || e.Name() != "gpu" {
		t.Error("the GPU was not given its time")
	}
	blocks[0].hang.Store(false)
	await(e, chunks[0])
}

// Neither do chunks in a hurry, shared or not, nor what is answered and what the CPU decides
// on in its place.
func TestTheHotPathAllocatesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, slots := range []int{1, 2 * maxShares} {
		e, blocks, chunks := newRig(t, slots, time.Minute)
		c := chunks[0]
		for _, n := range []int{60, 100, maxShares * hurryFrames, maxChunk} {
			for _, quick := range []uint32{0, 7} {
				for _, b := range blocks {
					b.quick.Store(quick)
				}
				lay(c, rnd, n)
				if n := testing.AllocsPerRun(20, func() {
					e.turns.Store(e.turns.Load() ^ 1) // each other time not the blocks'
					e.Submit(c)
					for !e.Done(c) {
					}
				}); n != 0 {
					t.Errorf("%d slots: a chunk of %d packets allocates %v times", slots, c.N, n)
				}
			}
		}
		if e.byGPU.Load() != 8*21 {
			t.Errorf("%d slots: %d chunks were the GPU's", slots, e.byGPU.Load())
		}
	}
}
