package gpu

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// TestChosenEngineGetsTheChunk: small chunks are the CPU's and large ones the GPU's. Chunks complete in order.
func TestChosenEngineGetsTheChunk(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, time.Minute)
	rnd := rand.New(rand.NewPCG(3, 4))
	e.chooser = choice.New()
	submit := func(c *batch.Chunk, n int) {
		fill(c, rnd, n)
		for i := range n {
			c.In[i].Addr, c.In[i].Len = 2, 60 // empty frames, which the CPU drops
		}
		c.Submitted = batch.Clock()
		e.Submit(c)
	}
	submit(chunks[0], 2)
	await(e, chunks[0])
	if byGPU := chunks[0].Out[0].Verdict.Action() == batch.ActionForward; byGPU {
		t.Error("2 packets are the GPU's")
	}
	blocks[0].hang.Store(true)
	e.traffic[0].class = choice.HMAC // with which 200 packets take the CPU 140 µs
	submit(chunks[0], 200)
	submit(chunks[1], 2) // the CPU's, behind another
	if e.Done(chunks[0]) || !e.Done(chunks[1]) {
		t.Error("a chunk on the CPU waits for one on the GPU, or the reverse")
	}
	blocks[0].hang.Store(false)
	await(e, chunks[0])
	if g, c := e.executed[ExecutedOnGPU].Load(), e.executed[CPUSooner].Load(); g != 1 || c != 2 {
		t.Errorf("%d chunks by the GPU, %d by the CPU as it was sooner", g, c)
	}
	e.outage.begin(errors.New("a test"))
	submit(chunks[0], 200)
	await(e, chunks[0])
	if c, s := e.executed[ExecutedOnCPU].Load(), e.executed[CPUSooner].Load(); c != 1 || s != 2 {
		t.Errorf("while the GPU is out: %d chunks as it was out, %d as the CPU was sooner", c, s)
	}
	if n := e.kernel.backlog.Load(); n != 0 {
		t.Errorf("a backlog of %d bytes without chunks", n)
	}
}

// TestChunksPassTheMailbox passes chunks of every size through reused slots.
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
				if want := (batch.ForwardTo(f.Origin.Port()+1, f.Addr, f.Len)); c.Out[i] != want {
					t.Fatalf("packet %d of %d: %+v, want %+v", i, n, c.Out[i], want)
				}
			}
		}
	}
}

// TestLowestFreeSlotIsUsed: at low load one block serves all chunks.
func TestLowestFreeSlotIsUsed(t *testing.T) {
	e, blocks, chunks := newRig(t, 3, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		fill(chunks[0], rnd, 5)
		process(e, chunks[0])
	}
	if blocks[0].chunks.Load() != 10 || blocks[1].chunks.Load()+blocks[2].chunks.Load() != 0 {
		t.Errorf("the blocks had %d, %d and %d chunks", blocks[0].chunks.Load(), blocks[1].chunks.Load(), blocks[2].chunks.Load())
	}
}

func TestChunkWithoutSlotRunsOnCPU(t *testing.T) {
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
	if e.Done(chunks[0]) || !e.Done(chunks[1]) || e.executed[NoFreeSlot].Load() != 1 || e.executed[ExecutedOnCPU].Load() != 0 {
		t.Error("the second chunk waits for the first, or the first for nobody")
	}
	if got := chunks[1].Out[0].Verdict; got != batch.Drop(batch.EtherType) {
		t.Errorf("the CPU's verdict on an empty frame is %v", got)
	}
	blocks[0].hang.Store(false)
	await(e, chunks[0])
}

// TestHungGPUIsTakenOut: its chunks are lost, later chunks run on the CPU, and late results change
// nothing.
func TestHungGPUIsTakenOut(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, 5*time.Millisecond)
	e.outage.first = time.Minute
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
	if o := e.outage.current.Load(); o == nil || !strings.Contains(o.Why.Error(), "7 packets not finished within 5ms") || !e.state.ok() {
		t.Errorf("the outage is %v, the device's %v", o, e.state.err())
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

func TestTimeoutStartsAtSubmission(t *testing.T) {
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

// TestHotPathAllocatesNothing includes the low-latency path, split chunks, and completions of an older
// table generation.
func TestHotPathAllocatesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, slots := range []int{1, 2 * inlineTiles} {
		e, blocks, chunks := newRig(t, slots, time.Minute)
		c := chunks[0]
		for _, n := range []int{60, 100, inlineTiles * inlineFrames, maxChunk} {
			for _, inline := range []uint32{0, 7} {
				for _, b := range blocks {
					b.inline.Store(inline)
				}
				lay(c, rnd, n)
				if n := testing.AllocsPerRun(20, func() {
					e.queuedGeneration.Store(e.queuedGeneration.Load() ^ 1) // every other one of another generation than the blocks'
					process(e, c)
				}); n != 0 {
					t.Errorf("%d slots: a chunk of %d packets allocates %v times", slots, c.N, n)
				}
			}
		}
		if e.executed[ExecutedOnGPU].Load() != 8*21 {
			t.Errorf("%d slots: %d chunks were the GPU's", slots, e.executed[ExecutedOnGPU].Load())
		}
	}
}
