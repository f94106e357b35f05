package gpu

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/internal/require"
)

// block is a GPU block in Go: it serves a slot, and forwards every packet to the port after its ingress
// port.
type block struct {
	*slot
	seq            uint32
	hang           atomic.Bool
	chunks         atomic.Int64 // chunks
	inlinedHeaders atomic.Int64 // inlined headers of the last chunk that equal the umem
	umem           []byte
	inline         atomic.Uint32 // bits of batches with inline completions, if there are headers
	generation     atomic.Uint32 // their table generation
	delay          atomic.Uint32 // bits of batches to delay while set
}

// runBlocks starts the blocks of a mailbox. They end on stop.
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
		b.chunks.Add(1)
		b.inlinedHeaders.Store(0)
		as := n & (inlineHeadersFlag | inlineShortHeadersFlag)
		n &^= as
		for i := range n {
			group, rest := i/batchFrames, i%batchFrames
			lane := rest/cacheLineFrames*cacheLineWords + 1 + rest%cacheLineFrames
			word := b.descriptors[group*batchBytes/8+lane]
			b.results[i] = batch.ForwardTo(uint16(word>>48)+1, uint32(word), uint16(word>>32))
			if as == inlineHeadersFlag {
				b.compareHeader(b.results[i].Addr(), 0, b.slot.headers[group*batchBytes/8+lane][:])
			} else if as == inlineShortHeadersFlag {
				b.compareHeader(b.results[i].Addr(), shortHeaderAt, b.slot.shortHeaders[group*batchBytes/8+lane][:])
			}
			if as != 0 && b.inline.Load()>>group&1 != 0 {
				b.results[i] = batch.Result{}
				b.reply(&b.slot.completions[group*batchBytes/8+lane], uint64(i))
			}
		}
		for i := range min((n+batchFrames-1)/batchFrames, doneBatches) {
			if as == 0 || b.inline.Load()>>i&1 == 0 {
				for b.delay.Load()>>i&1 != 0 {
					time.Sleep(time.Microsecond)
				}
				atomic.StoreUint32(&b.done[i], b.seq)
			}
		}
	}
}

// replyLen returns the length in a packet's completion: shorter than the tests' frames.
func replyLen(n int) uint16 { return uint16(minFrame + n%20) }

// reply writes the completion of packet n: forwarded to port n with replyLen bytes and distinct
// rewritten bytes, or every third held for adjacency n.
func (b *block) reply(a *completion, n uint64) {
	tag, verdict := tagOf(b.seq), uint64(batch.Forward(uint16(n)))
	if n%3 == 2 {
		verdict = uint64(batch.Hold)
	}
	a[1] = 0xbbbbbbbbbbbb | verdict<<48
	a[3] = 0xdddddddd | uint64(b.generation.Load())<<32
	atomic.StoreUint64(&a[0], tag|n<<16)
	atomic.StoreUint64(&a[2], tag|uint64(replyLen(int(n)))<<16|0xcccccccc<<32)
}

func (b *block) await() (n uint32) {
	for {
		head := atomic.LoadUint64(&b.descriptors[0])
		if uint32(head) == b.seq && !b.hang.Load() {
			return uint32(head >> 32)
		}
		time.Sleep(time.Microsecond)
	}
}

// compareHeader compares an inlined header with its frame, from one of its bytes on.
func (b *block) compareHeader(addr uint32, from int, head []uint64) {
	got := bytesOf(head)
	if tag := binary.LittleEndian.Uint16(got); tag == uint16(1+b.seq%tagCount) && bytes.Equal(got[2:], b.umem[int(addr)+from:][:len(got)-2]) {
		b.inlinedHeaders.Add(1)
	}
}

const (
	maxChunk = 300
	pause    = 20 * time.Millisecond // of the engine
)

// newRig returns an engine with blocks in Go, and chunks.
func newRig(t *testing.T, slots int, timeout time.Duration) (*Engine, []*block, []*batch.Chunk) {
	t.Helper()
	mailbox := got(newMailbox(slots, maxChunk))(t)
	umem := mapMemory(t, 1<<20)
	blocks, ended := runBlocks(mailbox, umem)
	chunks := batch.NewChunks(slots+1, maxChunk)
	e := newEngine(cpu.New(fib.New(1), make([]byte, 1<<20), make([]bool, 16)), &deviceState{}, mailbox, umem, Options{Timeout: timeout, Pause: pause})
	t.Cleanup(func() {
		for _, b := range blocks {
			b.hang.Store(false)
			for !b.finished() { // its pending chunk
				time.Sleep(time.Microsecond)
			}
			b.stop()
		}
		ended.Wait()
		if err := mailbox.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, blocks, chunks
}

// mapMemory returns memory that is unmapped at the end of the test.
func mapMemory(t testing.TB, size int) []byte {
	t.Helper()
	m := got(hostmem.Map(size))(t)
	t.Cleanup(func() { m.Close() })
	return m.Bytes
}

func fill(c *batch.Chunk, rnd *rand.Rand, n int) {
	c.N = n
	for i := range n {
		c.In[i] = batch.Frame{Addr: rnd.Uint32(), Len: uint16(minFrame + rnd.IntN(1<<15)), Origin: batch.From(uint16(rnd.IntN(10)))}
		c.Out[i] = batch.Result{}
	}
	c.Submitted = batch.Clock()
}

// process runs a chunk through an engine.
func process(e *Engine, c *batch.Chunk) {
	e.Submit(c)
	for !e.Done(c) {
		runtime.Gosched()
	}
}

// got returns v, or fails the test.
func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

func await(e *Engine, c *batch.Chunk) {
	for !e.Done(c) {
		time.Sleep(time.Microsecond)
	}
}
