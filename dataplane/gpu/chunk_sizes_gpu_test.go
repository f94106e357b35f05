//go:build gpu

package gpu

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/umem"
)

// chunkwise makes an engine's resident kernel end after each chunk, as compute-sanitizer waits for the
// end of every launch. It posts each chunk as it is, or by post.
func chunkwise(t *testing.T, d *Device, e *Engine, umem []byte, post func(s *slot, finish func() error) error) *Engine {
	t.Helper()
	var kernel *cuda.Launch
	var stream *cuda.Stream
	require.NoError(t, d.ctx.Do(func() error {
		p, on, err := d.attach(e, umem)
		if err != nil {
			return err
		}
		stream = on
		kernel, err = d.kernel(e, p)
		return err
	}))
	s := &e.mailbox.slots[0]
	e.launch = func(_ int, _ uint32, n int) error {
		size := uint32(s.descriptors[0] >> 32)
		clear(s.done)
		s.seq = 0 // a kernel starts with sequence number 1
		ended := make(chan error)
		go func() {
			ended <- d.ctx.Do(func() error {
				return errors.Join(kernel.Enqueue(stream), waitUntil(time.Now().Add(time.Minute), stream.Done))
			})
		}()
		finish := func() error {
			return waitUntil(time.Now().Add(time.Minute), func() (bool, error) { return s.finished(), nil })
		}
		var late error
		if post != nil {
			late = post(s, finish)
		} else {
			s.ringDoorbell(size, (n+batchFrames-1)/batchFrames)
			late = finish()
		}
		last := s.seq
		s.stop()
		err := errors.Join(late, <-ended)
		s.seq = last
		return err
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
	s.post(make([]batch.Frame, len(frames)), nil, headers)
	if err := finish(); err != nil {
		return err
	}
	s.post(frames, umem, 0)
	return finish()
}

// TestGPUChunkwise runs the resident kernels chunk by chunk, for scripts/sanitize.sh.
func TestGPUChunkwise(t *testing.T) {
	const chunks = 20
	open := func(t *testing.T, net *testutil.Network, g *gateway.Gateway) *Device {
		d := got(openFirst(net.FIB, Options{Timeout: time.Minute, PartialChecksums: net.PartialChecksums, Gateway: g}))(t)
		t.Cleanup(func() {
			if err := errors.Join(d.Err(), d.Close()); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	// attach returns an engine without a kernel, and its memory.
	attach := func(t *testing.T, d *Device, base *fib.FIB, partialChecksums []bool) (*Engine, []byte) {
		mem := mapMemory(t, twinBytes)
		mailbox := got(newMailbox(1, twinChunk))(t)
		return newEngine(cpu.New(base, mem, partialChecksums), &d.state, mailbox, mem, d.options), mem
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
				chunkwise(t, d, e, mem, nil)
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
		agree(t, 4, func(d *Device) maker {
			return func(t *testing.T, base *fib.FIB, partialChecksums []bool) other {
				e, mem := attach(t, d, base, partialChecksums)
				e.generation = &d.tables.queuedGeneration
				var frames []batch.Frame
				chunkwise(t, d, e, mem, func(s *slot, finish func() error) error {
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
	t.Run("gateway", func(t *testing.T) {
		w := newSecuredTwins(t, func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
			d := open(t, net, g)
			mem := got(umem.New(securedFrames))(t)
			fallback := cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)
			fallback.Secure(g, 0)
			mailbox := got(newMailbox(1, securedChunk))(t)
			e := newEngine(fallback, &d.state, mailbox, mem.Bytes(), d.options)
			require.NoError(t, d.addIPsec(e, 1, securedChunk))
			return secured{mem.Bytes()[:securedFrames*umem.FrameSize], chunkwise(t, d, e, mem.Bytes(), nil), d.tables.patcher.drain}
		}, 1)
		for range chunks {
			w.run(w.next)
		}
	})
}
