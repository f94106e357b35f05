//go:build gpu

package gpu

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/umem"
)

// chunkwise has an engine's kernel, which would stay, end after each chunk. A tool that
// looks for races in shared memory has every launch wait for the kernel's end. What is posted
// to a kernel, once it is started, and awaited, is the chunk as it was, or what post makes of it.
func chunkwise(t *testing.T, d *Device, e *Engine, umem []byte, post func(s *slot, finish func() error) error) *Engine {
	t.Helper()
	var kernel *cuda.Launch
	var stream *cuda.Stream
	if err := d.ctx.Do(func() error {
		p, on, err := d.attach(e, umem)
		if err != nil {
			return err
		}
		stream = on
		kernel, err = d.kernel(e, p)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s := &e.mail.slots[0]
	e.launch = func(_ int, _ uint32, n int) error {
		size := uint32(s.quads[0] >> 32)
		clear(s.done)
		s.seq = 0 // a kernel begins with the first
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
			s.ring(size, (n+quadFrames-1)/quadFrames)
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

// hurry posts frames with their heads. They follow a chunk as large, of frames too short to
// be changed, for a block looks out for what the chunk before had.
func hurry(s *slot, frames []batch.Frame, umem []byte, finish func() error) error {
	clear(s.heads)
	clear(s.halves)
	clear(s.answers)
	heads := s.copyHeads(frames, umem)
	s.post(make([]batch.Frame, len(frames)), nil, heads)
	if err := finish(); err != nil {
		return err
	}
	s.post(frames, umem, 0)
	return finish()
}

// The kernels that stay do the same if they do not: see scripts/sanitize.sh.
func TestGPUChunkwise(t *testing.T) {
	const chunks = 20
	open := func(t *testing.T, net *testutil.Network, g *gateway.Gateway) *Device {
		d, err := openFirst(net.FIB, Options{Timeout: time.Minute, Repair: net.Repair, Gateway: g})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(d.Err(), d.Close()); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	// attach returns an engine without a kernel, and its memory.
	attach := func(t *testing.T, d *Device, base *fib.FIB, repair []bool) (*Engine, []byte) {
		mem, err := unix.Mmap(-1, 0, twinBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		mail, err := newMailbox(1, twinChunk)
		if err != nil {
			t.Fatal(err)
		}
		return newEngine(cpu.New(base, mem, repair), &d.health, mail, mem, d.options), mem
	}
	agree := func(t *testing.T, chunks int, maker func(*Device) maker) {
		net := testutil.NewNetwork()
		w := newTwins(t, maker(open(t, net, nil)), net.FIB, net.Repair)
		traffic := &testutil.Traffic{Rand: w.rnd, To: net.Prefixes}
		for range chunks {
			w.run(func() []byte { return testutil.Mutate(w.rnd, traffic.Frame()) })
		}
	}
	t.Run("resident", func(t *testing.T) {
		agree(t, chunks, func(d *Device) maker {
			return func(t *testing.T, base *fib.FIB, repair []bool) other {
				slab, err := batch.NewSlab(1, twinChunk)
				if err != nil {
					t.Fatal(err)
				}
				e, mem := attach(t, d, base, repair)
				chunkwise(t, d, e, mem, nil)
				c := slab.Chunks[0]
				return other{mem, c.In, c.Out, func(n int) {
					d.tables.patcher.settle()
					c.N = n
					e.Submit(c)
					for !e.Done(c) {
					}
				}, 0}
			}
		})
	})
	t.Run("in a hurry", func(t *testing.T) {
		n := &hurried{}
		agree(t, 4, func(d *Device) maker {
			return func(t *testing.T, base *fib.FIB, repair []bool) other {
				e, mem := attach(t, d, base, repair)
				e.turns = &d.tables.now
				var frames []batch.Frame
				chunkwise(t, d, e, mem, func(s *slot, finish func() error) error {
					err := hurry(s, frames, mem, finish)
					n.count(s)
					return err
				})
				h := &errand{rand.New(rand.NewPCG(3, 3)), hurryFrames, mem, func(c *batch.Chunk) {
					frames = c.In[:c.N]
					e.Submit(c)
					for !e.Done(c) {
					}
				}}
				in, out := make([]batch.Frame, twinChunk), make([]batch.Result, twinChunk)
				return other{mem, in, out, func(n int) {
					d.tables.patcher.settle()
					h.run(in[:n], out[:n])
				}, hurriedApart}
			}
		})
		n.check(t)
	})
	t.Run("gateway", func(t *testing.T) {
		w := newSecuredTwins(t, func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
			d := open(t, net, g)
			mem, err := umem.New(securedFrames)
			if err != nil {
				t.Fatal(err)
			}
			fallback := cpu.New(net.FIB, mem.Bytes(), net.Repair)
			fallback.Secure(g, 0)
			mail, err := newMailbox(1, securedChunk)
			if err != nil {
				t.Fatal(err)
			}
			e := newEngine(fallback, &d.health, mail, mem.Bytes(), d.options)
			if err := d.secure(e, 1, securedChunk); err != nil {
				t.Fatal(err)
			}
			return secured{mem.Bytes()[:securedFrames*umem.FrameSize], chunkwise(t, d, e, mem.Bytes(), nil), d.tables.patcher.settle}
		}, 1)
		for range chunks {
			w.run(w.next)
		}
	})
}
