package gpu

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
)

// HostEngine is an IPsec engine with a null device: only the host's part of the work remains. It is
// for measurements.
type HostEngine struct {
	*Engine
	chunk *batch.Chunk // being submitted
}

// NewHostEngine returns such an engine. device replaces the GPU: it fills in the results of packets, by
// their frames and tasks.
func NewHostEngine(worker *cpu.Engine, umem []byte, chunks, size int, device func(in []batch.Frame, tasks []esp.Task, results []batch.Result)) (*HostEngine, error) {
	mailbox, err := newMailbox(chunks, size)
	if err != nil {
		return nil, err
	}
	h := &HostEngine{Engine: newEngine(worker, &deviceState{}, mailbox, umem, Options{}.withDefaults())}
	if h.ipsec, err = newIPsecPath(chunks, size, ipsec.NoNumber); err != nil {
		_ = mailbox.Close()
		return nil, err
	}
	h.launch = func(slot int, seq uint32, n int) error {
		s := &mailbox.slots[slot]
		in, tasks := h.chunk.In[:n], h.ipsec.tasks[slot][:n]
		device(in, tasks, s.results[:n])
		for i := range tasks { // overwrite the canary of sealed packets
			if t := &tasks[i]; t.Kind == esp.Seal {
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

// Close frees the engine's memory. The engine must no longer be in use.
func (h *HostEngine) Close() error {
	_ = h.ipsec.jobs.Close()
	return h.mailbox.Close()
}

// Name returns "host".
func (h *HostEngine) Name() string { return "host" }

// Submit executes a chunk.
func (h *HostEngine) Submit(c *batch.Chunk) {
	h.chunk = c
	h.Engine.Submit(c)
}
