//go:build gpu

package gpu

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/umem"
)

// chunkwise makes the kernel of a device with few slots run once per chunk of an engine, as compute-sanitizer
// waits for the end of every launch. It posts each chunk as it is, or by post.
func chunkwise(d *Device, e *Engine, post func(s *slot, finish func() error) error) *Engine {
	k := d.kernel
	k.pool.open()
	k.state.parked.Store(false)
	blocks := uint32(k.pool.blocks)
	e.fakeGPU = func(f *flight) {
		e.mailbox.prepare(int(blocks))
		for _, i := range f.slots[:f.tiles] {
			*e.mailbox.slots[e.mailbox.blockOf(i)*e.mailbox.depth].first--
		}
		s := &e.mailbox.slots[f.slots[0]]
		if post != nil {
			s.block.last--
			clear(s.descriptors)
		}
		ended := make(chan error)
		go func() {
			ended <- d.ctx.Do(func() error {
				if err := k.stream.Fill32(k.awake.Ptr(), blocks, 1); err != nil {
					return err
				}
				return errors.Join(k.launch.Enqueue(k.stream), waitUntil(time.Now().Add(time.Minute), k.stream.Done))
			})
		}()
		finish := func() error {
			return waitUntil(time.Now().Add(time.Minute), func() (bool, error) { return e.mailbox.idle(), nil })
		}
		var err error
		if post == nil {
			err = finish()
		} else {
			err = post(s, finish)
		}
		atomic.StoreUint32(e.mailbox.control, stop)
		if err = errors.Join(err, <-ended); err != nil {
			d.state.fail(err)
		}
	}
	return e
}

// postInline posts frames with inlined headers. They follow a chunk of the same size, with frames too
// short to forward, as a block polls for the kind of headers of the previous chunk.
func postInline(s *slot, frames []batch.Frame, umem []byte, finish func() error) error {
	clear(s.headers)
	clear(s.shortHeaders)
	clear(s.completions)
	headers := s.inlineHeaders(frames, umem)
	s.post(make([]batch.Frame, len(frames)), batchFrames, 0, nil, headers)
	if err := finish(); err != nil {
		return err
	}
	s.post(frames, batchFrames, 0, umem, 0)
	return finish()
}

// TestGPUChunkwise runs the resident kernels chunk by chunk, for scripts/sanitize.sh.
func TestGPUChunkwise(t *testing.T) {
	chunks := 20
	if testing.Short() { // racecheck takes seconds per chunk
		chunks = 3
	}
	open := func(t *testing.T, net *testutil.Network, g *gateway.Gateway) *Device {
		d := got(openFirst(net.FIB, Options{Timeout: time.Minute, PartialChecksums: net.PartialChecksums, Gateway: g, Park: time.Hour, blocks: 4}))(t)
		t.Cleanup(func() {
			if err := errors.Join(d.Err(), d.Close()); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	attach := func(t *testing.T, d *Device, base *fib.FIB, partialChecksums []bool) (*Engine, []byte) {
		mem := mapMemory(t, twinBytes)
		return got(d.NewEngine(mem, 1, twinChunk, cpu.New(base, mem, partialChecksums)))(t), mem
	}
	agree := func(t *testing.T, chunks int, maker func(*Device) maker) {
		net := testutil.NewNetwork()
		w := newTwins(t, maker(open(t, net, nil)), net.FIB, net.PartialChecksums)
		traffic := &testutil.Traffic{Rand: w.rnd, To: net.Prefixes}
		for range chunks {
			w.run(func() []byte { return testutil.Mutate(w.rnd, traffic.Frame()) })
		}
	}
	t.Run("resident", func(t *testing.T) {
		agree(t, chunks, func(d *Device) maker {
			return func(t *testing.T, base *fib.FIB, partialChecksums []bool) other {
				e, mem := attach(t, d, base, partialChecksums)
				chunkwise(d, e, nil)
				c := batch.NewChunks(1, twinChunk)[0]
				return other{mem, c.In, c.Out, func(n int) {
					d.tables.patcher.drain()
					c.N = n
					process(e, c)
				}, 0}
			}
		})
	})
	t.Run("low latency", func(t *testing.T) {
		n := &inlineCounts{}
		agree(t, min(chunks, 4), func(d *Device) maker {
			return func(t *testing.T, base *fib.FIB, partialChecksums []bool) other {
				e, mem := attach(t, d, base, partialChecksums)
				var frames []batch.Frame
				chunkwise(d, e, func(s *slot, finish func() error) error {
					err := postInline(s, frames, mem, finish)
					n.count(s)
					return err
				})
				h := &inlineChunks{rand.New(rand.NewPCG(3, 3)), inlineFrames, mem, func(c *batch.Chunk) {
					frames = c.In[:c.N]
					process(e, c)
				}}
				in, out := make([]batch.Frame, twinChunk), make([]batch.Result, twinChunk)
				return other{mem, in, out, func(n int) {
					d.tables.patcher.drain()
					h.run(in[:n], out[:n])
				}, inlinedApart}
			}
		})
		n.check(t)
	})
	onGateway := func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		d := open(t, net, g)
		mem := got(umem.New(securedFrames))(t)
		fallback := cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)
		fallback.Secure(g, 0)
		e := got(d.NewEngine(mem.Bytes(), 1, securedChunk, fallback))(t)
		return secured{mem.Bytes()[:securedFrames*umem.FrameSize], chunkwise(d, e, nil), d.tables.patcher.drain}
	}
	for name, maker := range map[string]securedMaker{"gateway": onGateway, "SA lookup": unread(onGateway, true, false), "classification": unread(onGateway, false, true)} {
		t.Run(name, func(t *testing.T) {
			w := newSecuredTwins(t, maker, 1)
			for range chunks {
				w.run(w.next)
			}
		})
	}
}
