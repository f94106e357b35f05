package gpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/ipsec"
)

// Half is a gateway's engine whose GPU is done at once: what is left is the host's half, for
// who measures that.
type Half struct {
	*Engine
	chunk *batch.Chunk // that is being submitted
}

// NewHalf returns such an engine. device stands in for the GPU, with all keys: it decides on
// packets, where they are since Begin and by what was to be done to them, and fills in results.
func NewHalf(worker *cpu.Engine, umem []byte, chunks, size int, device func(in []batch.Frame, tasks []cpu.Task, results []batch.Result)) (*Half, error) {
	mail, err := newMailbox(chunks, size)
	if err != nil {
		return nil, err
	}
	h := &Half{Engine: newEngine(worker, &health{}, mail, umem, Options{}.withDefaults())}
	if h.securer, err = newSecurer(chunks, size, ipsec.NoNumber); err != nil {
		_ = mail.close()
		return nil, err
	}
	h.launch = func(slot int, seq uint32, n int) error {
		s := &mail.slots[slot]
		in, tasks := h.chunk.In[:n], h.securer.tasks[slot][:n]
		device(in, tasks, s.results[:n])
		for i := range tasks { // as if sealed
			if t := &tasks[i]; t.Kind == cpu.Seal {
				clear(h.checker.icvEnd(in[i], t)[:canaryBytes/2])
			}
		}
		for i := range s.parts {
			atomic.StoreUint32(&s.done[i], seq)
		}
		return nil
	}
	return h, nil
}

// Close gives back the engine's memory. It must not be in use any more.
func (h *Half) Close() error {
	_ = h.securer.jobs.close()
	return h.mail.close()
}

// Name is "host", which decides on no packet by itself.
func (h *Half) Name() string { return "host" }

// Submit takes a chunk, of which Done is true then.
func (h *Half) Submit(c *batch.Chunk) {
	h.chunk = c
	h.Engine.Submit(c)
}
