package gpu

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
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

// replyLen is the length in the reply for a packet: less than frames of the tests have.
func replyLen(n int) uint16 { return uint16(minFrame + n%20) }

// reply answers that a packet is forwarded to the port of its number, as replyLen bytes, with new bytes that tell of it, too; and every third that it waits for that adjacency.
func (b *block) reply(a *answer, n uint64) {
	tag, verdict := tagOf(b.seq), uint64(batch.Forward(uint16(n)))
	if n%3 == 2 {
		verdict = uint64(batch.Hold)
	}
	a[1] = 0xbbbbbbbbbbbb | verdict<<48
	a[3] = 0xdddddddd | uint64(b.turns.Load())<<32
	atomic.StoreUint64(&a[0], tag|n<<16)
	atomic.StoreUint64(&a[2], tag|uint64(replyLen(int(n)))<<16|0xcccccccc<<32)
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
	maxChunk = 300
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
		c.In[i] = batch.Frame{Addr: rnd.Uint32(), Len: uint16(minFrame + rnd.IntN(1<<15)), Port: uint16(rnd.IntN(10))}
		c.Out[i] = batch.Result{}
	}
	c.Submitted = batch.Clock()
}

func await(e *Engine, c *batch.Chunk) {
	for !e.Done(c) {
		time.Sleep(time.Microsecond)
	}
}
