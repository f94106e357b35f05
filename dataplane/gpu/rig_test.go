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
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/internal/require"
)

// block is a GPU block in Go: it serves a slot, and forwards every packet to the port after its ingress
// port.
type block struct {
	*slot
	control        *uint32
	seq            uint32
	hang           atomic.Bool
	chunks         atomic.Int64 // chunks
	inlinedHeaders atomic.Int64 // inlined headers of the last chunk that equal the umem
	umem           []byte
	inline         atomic.Uint32 // bits of batches with inline completions, if there are headers
	generation     atomic.Uint32 // their table generation
	delay          atomic.Uint32 // bits of batches to delay while set
}

// runBlocks starts the blocks of a mailbox, as a launch does. They end on stop.
func runBlocks(m *mailbox, umem []byte) (blocks []*block, ended *sync.WaitGroup) {
	ended = &sync.WaitGroup{}
	for i := range m.slots {
		b := &block{slot: &m.slots[i], control: m.control, seq: atomic.LoadUint32(m.slots[i].first), umem: umem}
		blocks = append(blocks, b)
		ended.Go(b.run)
	}
	return blocks, ended
}

func (b *block) run() {
	for ; ; b.seq++ {
		header := b.await()
		if header == stop {
			return
		}
		b.chunks.Add(1)
		b.inlinedHeaders.Store(0)
		as, n, each := header&(inlineHeadersFlag|inlineShortHeadersFlag), header%tilePackets, header>>tileBatchShift%tileBatchPackets
		for i := range n {
			group, rest := i/each, i%each
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
		for i := range (n + each - 1) / each {
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

// await returns the tile header of the next tile, or stop.
func (b *block) await() (header uint32) {
	for {
		if atomic.LoadUint32(b.control) == stop {
			return stop
		}
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
	mailbox, pool := newTestMailbox(t, slots, maxChunk)
	umem := mapMemory(t, 1<<20)
	blocks, ended := runBlocks(mailbox, umem)
	chunks := batch.NewChunks(slots+1, maxChunk)
	e := newEngine(cpu.New(fib.New(1), make([]byte, 1<<20), make([]bool, 16)), &deviceState{}, &kernelState{}, mailbox, pool, umem, Options{Timeout: timeout, Pause: pause, PlainTile: maxChunk})
	t.Cleanup(func() {
		for _, b := range blocks {
			b.hang.Store(false)
			for !b.finished() { // its pending chunk
				time.Sleep(time.Microsecond)
			}
		}
		atomic.StoreUint32(mailbox.control, stop)
		ended.Wait()
	})
	return e, blocks, chunks
}

// newTestMailbox returns a mailbox for tiles of a number of packets, and its slots, which are free.
func newTestMailbox(t *testing.T, slots, packets int) (*mailbox, *blockPool) {
	t.Helper()
	m, pool := got(newMailbox(slots, 1, min((packets+batchFrames-1)/batchFrames, maxBatches)))(t), newBlockPool(slots)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	m.prepare(slots)
	pool.open()
	return m, pool
}

// busy returns the slots of an engine that are in use, a bit each, of up to 64.
func busy(e *Engine) uint64 { return (1<<e.pool.blocks - 1) &^ e.pool.words[0].free.Load() }

// eachTile returns Engine.fakeGPU that calls a function for each tile of a chunk, and finishes it. jobs is nil
// without any.
func eachTile(e *Engine, do func(s *slot, in []batch.Frame, jobs []esp.Job)) func(*flight) {
	return func(f *flight) {
		for k := range f.tiles {
			s, first, end := &e.mailbox.slots[f.slots[k]], f.tileStart(k), f.tileStart(k+1)
			jobs := f.jobs
			if jobs != nil {
				jobs = jobs[first:end]
			}
			do(s, f.chunk.In[first:end], jobs)
			s.report()
		}
	}
}

// eachPacket calls a function for each packet of a chunk, with its result on the device and its job, which
// is esp.Plain without jobs.
func eachPacket(e *Engine, f *flight, do func(i int, r *batch.Result, job esp.Job)) {
	for k := range f.tiles {
		first := f.tileStart(k)
		for i := first; i < f.tileStart(k+1); i++ {
			job := esp.Job{}
			if f.jobs != nil {
				job = f.jobs[i]
			}
			do(i, &e.mailbox.slots[f.slots[k]].results[i-first], job)
		}
	}
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
