package gpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// block is what serves a slot on a GPU, in Go: it waits for the descriptors, takes
// them apart, and sends every packet out of the port behind that it came from.
type block struct {
	*slot
	seq   uint32
	hang  atomic.Bool
	had   atomic.Int64 // chunks
	heads atomic.Int64 // of the chunk before, those that the umem has as the mailbox had them
	umem  []byte
	quick atomic.Uint32 // a bit for each quad that it answers if there are heads,
	turns atomic.Uint32 // by tables of these
	late  atomic.Uint32 // a bit for each quad that it leaves for as long as that is set
}

// runBlocks starts the blocks of a mailbox; they end when they are told to.
func runBlocks(m *mailbox, umem []byte) (blocks []*block, ended *sync.WaitGroup) {
	ended = &sync.WaitGroup{}
	for i := range m.slots {
		b := &block{slot: &m.slots[i], umem: umem}
		blocks = append(blocks, b)
		ended.Go(b.run)
	}
	return blocks, ended
}

func (b *block) run() {
	for b.seq = 1; ; b.seq++ {
		n := b.await()
		if n == stopSize {
			return
		}
		b.had.Add(1)
		b.heads.Store(0)
		as := n & (headsSize | halvesSize)
		n &^= as
		for i := range n {
			quad, rest := i/quadFrames, i%quadFrames
			lane := rest/unitFrames*unitWords + 1 + rest%unitFrames
			word := b.quads[quad*quadBytes/8+lane]
			b.results[i] = batch.Result{Addr: uint32(word), Len: uint16(word >> 32), Verdict: batch.Forward(uint16(word>>48) + 1)}
			if as == headsSize {
				b.look(b.results[i].Addr, 0, b.slot.heads[quad*quadBytes/8+lane][:])
			} else if as == halvesSize {
				b.look(b.results[i].Addr, halfAt, b.slot.halves[quad*quadBytes/8+lane][:])
			}
			if as != 0 && b.quick.Load()>>quad&1 != 0 {
				b.results[i] = batch.Result{}
				b.reply(&b.slot.answers[quad*quadBytes/8+lane], uint64(i))
			}
		}
		for i := range min((n+quadFrames-1)/quadFrames, doneQuads) {
			if as == 0 || b.quick.Load()>>i&1 == 0 {
				for b.late.Load()>>i&1 != 0 {
					time.Sleep(time.Microsecond)
				}
				atomic.StoreUint32(&b.done[i], b.seq)
			}
		}
	}
}

// reply answers that a packet is forwarded to the port of its number, as 1000 bytes more than
// that, with new bytes that tell of it, too; and every third that it waits for that adjacency.
func (b *block) reply(a *answer, n uint64) {
	tag, verdict := tagOf(b.seq), uint64(batch.Forward(uint16(n)))
	if n%3 == 2 {
		verdict = uint64(batch.Hold)
	}
	a[1] = 0xbbbbbbbbbbbb | verdict<<48
	a[3] = 0xdddddddd | uint64(b.turns.Load())<<32
	atomic.StoreUint64(&a[0], tag|n<<16)
	atomic.StoreUint64(&a[2], tag|(1000+n)<<16|0xcccccccc<<32)
}

func (b *block) await() (n uint32) {
	for {
		head := atomic.LoadUint64(&b.quads[0])
		if uint32(head) == b.seq && !b.hang.Load() {
			return uint32(head >> 32)
		}
		time.Sleep(time.Microsecond)
	}
}

// look compares a head, from one of its bytes on, with the frame that it is of.
func (b *block) look(addr uint32, from int, head []uint64) {
	got := bytesOf(head)
	if tag := binary.LittleEndian.Uint16(got); tag == uint16(1+b.seq%tags) && bytes.Equal(got[2:], b.umem[int(addr)+from:][:len(got)-2]) {
		b.heads.Add(1)
	}
}

const (
	maxChunk = 200
	pause    = 20 * time.Millisecond // of the rig's engine
)

// newRig returns an engine whose slots are served by blocks in Go, and chunks.
func newRig(t *testing.T, slots int, timeout time.Duration) (*Engine, []*block, []*batch.Chunk) {
	t.Helper()
	mail, err := newMailbox(slots, maxChunk)
	if err != nil {
		t.Fatal(err)
	}
	umem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	blocks, ended := runBlocks(mail, umem)
	slab, err := batch.NewSlab(slots+1, maxChunk)
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(cpu.New(fib.New(1), make([]byte, 1<<20), make([]bool, 16)), &health{}, mail, umem, Options{Timeout: timeout, Pause: pause})
	t.Cleanup(func() {
		for _, b := range blocks {
			b.hang.Store(false)
			for !b.finished() { // what it hung with
				time.Sleep(time.Microsecond)
			}
			b.stop()
		}
		ended.Wait()
		slab.Close()
		_ = unix.Munmap(umem)
		if err := mail.close(); err != nil {
			t.Error(err)
		}
	})
	return e, blocks, slab.Chunks
}

func fill(c *batch.Chunk, rnd *rand.Rand, n int) {
	c.N = n
	for i := range n {
		c.In[i] = batch.Frame{Addr: rnd.Uint32(), Len: uint16(rnd.Uint32()), Port: uint16(rnd.IntN(10))}
		c.Out[i] = batch.Result{}
	}
	c.Submitted = batch.Clock()
}

func await(e *Engine, c *batch.Chunk) {
	for !e.Done(c) {
		time.Sleep(time.Microsecond)
	}
}

// ipv4 makes the packets of a chunk look as those of which half a head will do.
func ipv4(c *batch.Chunk, umem []byte) {
	for _, f := range c.In[:c.N] {
		copy(umem[f.Addr+packet.EthernetLen-2:], []byte{8, 0, 0x45})
	}
}

// A chunk that finds its device idle takes the heads of its packets along, unless they
// are too many, or one of them is not where heads are lines; tags begin anew. Of IPv4 it
// takes halves, unless one packet has another.
func TestHeadsComeAlong(t *testing.T) {
	e, blocks, chunks := newRig(t, 2, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range e.umem {
		e.umem[i] = byte(rnd.Uint32())
	}
	for n := 1; n <= maxChunk; n++ {
		c := chunks[0]
		fill(c, rnd, n)
		for i := range n {
			c.In[i].Addr = rnd.Uint32N(1<<13)*128 + 2
		}
		halves := n%2 == 0
		if ipv4(c, e.umem); !halves {
			at := int(c.In[rnd.IntN(n)].Addr) + packet.EthernetLen - 2
			e.umem[at+rnd.IntN(3)] ^= 1 << rnd.IntN(8)
		}
		want := n
		if n > headQuads*quadFrames {
			want = 0
		} else if n%3 == 0 {
			c.In[rnd.IntN(n)].Addr += 1 + rnd.Uint32N(15)
			want = 0
		}
		e.Submit(c)
		await(e, c)
		if got := int(blocks[0].heads.Load()); got != want {
			t.Fatalf("%d packets: %d heads came along, want %d", n, got, want)
		}
		if size := uint32(blocks[0].quads[0] >> 32); want > 0 && (size&halvesSize != 0) != halves {
			t.Fatalf("%d packets: halves of heads came along: %v", n, !halves)
		}
	}
	fill(chunks[0], rnd, 1)
	fill(chunks[1], rnd, 1)
	chunks[0].In[0].Addr, chunks[1].In[0].Addr = 2, 2
	blocks[0].hang.Store(true)
	e.Submit(chunks[0])
	e.Submit(chunks[1])
	blocks[0].hang.Store(false)
	await(e, chunks[0])
	await(e, chunks[1])
	if blocks[0].heads.Load() == 0 || blocks[1].heads.Load() != 0 {
		t.Error("heads come along to a device that is not idle, or not to one that is")
	}
}

// What is answered is written into frames, and nothing else of them; what is not has
// results as ever. Answers by tables that have changed since are not taken: the CPU decides.
func TestAnswers(t *testing.T) {
	e, blocks, chunks := newRig(t, 1, time.Minute)
	rnd := rand.New(rand.NewPCG(1, 2))
	c, b := chunks[0], blocks[0]
	for round := range 2000 {
		n := 1 + rnd.IntN(headQuads*quadFrames)
		quick, turns := rnd.Uint32N(8)|rnd.Uint32N(8), rnd.Uint32N(1<<31)
		b.quick.Store(quick)
		b.turns.Store(turns)
		e.turns.Store(turns)
		stale := rnd.IntN(4) == 0
		if stale {
			e.turns.Add(1)
		}
		for i := range e.umem {
			e.umem[i] = byte(i * 7)
		}
		fill(c, rnd, n)
		for i, at := range rnd.Perm(1 << 13)[:n] {
			c.In[i] = batch.Frame{Addr: uint32(at*128 + 2), Len: 60, Port: 3}
		}
		if rnd.IntN(2) == 0 {
			ipv4(c, e.umem)
		}
		want := slices.Clone(e.umem)
		e.Submit(c)
		await(e, c)
		for i, f := range c.In[:n] {
			expect := batch.Result{Addr: f.Addr, Len: uint16(1000 + i), Verdict: batch.Forward(uint16(i))}
			switch {
			case quick>>(i/quadFrames)&1 == 0:
				expect = batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(f.Port + 1)}
			case stale: // its memory is empty
				expect = batch.Result{Verdict: batch.Drop(batch.EtherType)}
			case i%3 == 2:
				expect.Addr, expect.Verdict = uint32(i), batch.Hold
			default:
				copy(want[f.Addr:], []byte{byte(i), 0, 0, 0, 0, 0, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb})
				copy(want[f.Addr+packet.EthernetLen+4:], []byte{0xcc, 0xcc, 0xcc, 0xcc, 0xdd, 0xdd, 0xdd, 0xdd})
			}
			if c.Out[i] != expect {
				t.Fatalf("round %d, packet %d of %d, stale %v: %+v, want %+v", round, i, n, stale, c.Out[i], expect)
			}
		}
		if !bytes.Equal(e.umem, want) {
			t.Fatalf("round %d: %d packets, stale %v: frames differ from what was answered", round, n, stale)
		}
	}
}

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

// When tags begin anew, no head, half or answer is left whose tag could be taken for a later
// one's.
func TestOldTagsAreCleared(t *testing.T) {
	mail, err := newMailbox(1, maxChunk)
	if err != nil {
		t.Fatal(err)
	}
	defer mail.close()
	s, umem := &mail.slots[0], make([]byte, 1<<16)
	frames := make([]batch.Frame, headQuads*quadFrames)
	for i := range frames {
		frames[i].Addr = 2
	}
	tag := func(words *uint64) uint16 { return uint16(*words) }
	for _, version := range []byte{0, 0x45} { // heads; halves
		copy(umem[packet.EthernetLen:], []byte{8, 0, version}) // of frames that begin at 2
		for _, start := range []uint32{0, 5 * tags, 1<<32 - 2*tags} {
			s.seq = start + 10
			s.post(frames, umem)
			old := tag(&s.halves[firstLane][0])
			for i := range s.answers {
				s.answers[i] = answer{uint64(old), 0, uint64(old), 0}
			}
			s.seq += tags - 1 // meanwhile all chunks went without
			s.post(frames[:1], umem)
			if again := tag(&s.halves[firstLane][0]); again != old {
				t.Fatalf("tag %d follows tag %d: the test is wrong about tags", again, old)
			}
			for l := range s.heads {
				if l > firstLane && (tag(&s.heads[l][0]) == old || tag(&s.halves[l][0]) == old) || tag(&s.answers[l][0]) == old || tag(&s.answers[l][2]) == old {
					t.Fatalf("from chunk %d on: in lane %d there is tag %d still", start, l, old)
				}
			}
		}
	}
}

// A chunk is finished when both pieces of all answers are there, in whatever order they come,
// or the quads say that they are done; what slots have of chunks before does not count.
func TestEveryPieceOfAnAnswerIsAwaited(t *testing.T) {
	mail, err := newMailbox(1, maxChunk)
	if err != nil {
		t.Fatal(err)
	}
	defer mail.close()
	s, umem, rnd := &mail.slots[0], make([]byte, 1<<16), rand.New(rand.NewPCG(5, 5))
	copy(umem[2+packet.EthernetLen-2:], []byte{8, 0, 0x45})
	for range 2000 {
		frames := make([]batch.Frame, 1+rnd.IntN(headQuads*quadFrames))
		for i := range frames {
			frames[i].Addr = 2
		}
		if rnd.IntN(2) == 0 {
			umem[2+packet.EthernetLen] ^= 1 // halves or not
		}
		hurry := rnd.IntN(4) > 0
		if hurry {
			s.post(frames, umem)
		} else {
			s.post(frames, nil)
		}
		var pieces []func()
		want := uint32(0)
		for part := range s.parts {
			if !hurry || rnd.IntN(3) == 0 {
				pieces = append(pieces, func() { s.done[part] = s.seq })
				continue
			}
			want |= 1 << part
			for i := part * quadFrames; i < min((part+1)*quadFrames, len(frames)); i++ {
				a := &s.answers[laneOf(i)]
				pieces = append(pieces, func() { a[0] = tagOf(s.seq) }, func() { a[2] = tagOf(s.seq) })
			}
		}
		rnd.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		for i, arrive := range pieces {
			if s.finished() {
				t.Fatalf("chunk %d of %d packets is finished by %d of %d pieces", s.seq, len(frames), i, len(pieces))
			}
			arrive()
		}
		if !s.finished() || s.answered != want {
			t.Fatalf("chunk %d of %d packets: finished %v, answered %b, want %b", s.seq, len(frames), s.finished(), s.answered, want)
		}
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

// A chunk for which there is no slot is the CPU's.
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
	if e.Done(chunks[0]) || !e.Done(chunks[1]) {
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

func TestTheHotPathAllocatesNothing(t *testing.T) {
	e, _, chunks := newRig(t, 1, time.Minute)
	fill(chunks[0], rand.New(rand.NewPCG(1, 1)), 100)
	if n := testing.AllocsPerRun(100, func() {
		e.Submit(chunks[0])
		for !e.Done(chunks[0]) {
		}
	}); n != 0 {
		t.Errorf("a chunk allocates %v times", n)
	}
}
