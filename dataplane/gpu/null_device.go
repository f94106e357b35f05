package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
)

// NullDevice is an IPsec engine without a GPU: only the host's part of the work remains. It is for
// measurements.
type NullDevice struct {
	*Engine
	chunk *batch.Chunk // being submitted
}

// NewNullDevice returns such an engine. device replaces the GPU: it fills in the results of packets, by
// their frames and jobs.
func NewNullDevice(worker *cpu.Engine, umem []byte, chunks, size int, device func(in []batch.Frame, jobs []esp.Job, results []batch.Result)) (*NullDevice, error) {
	mailbox, err := newMailbox(chunks, size)
	if err != nil {
		return nil, err
	}
	h := &NullDevice{Engine: newEngine(worker, &deviceState{}, mailbox, umem, Options{}.withDefaults())}
	if h.ipsec, err = newIPsecPath(chunks, size, ipsec.NoKeyIndex); err != nil {
		_ = mailbox.Close()
		return nil, err
	}
	h.launch = func(slot int, seq uint32, n int) error {
		s := &mailbox.slots[slot]
		in, jobs := h.chunk.In[:n], h.ipsec.jobs[slot][:n]
		device(in, jobs, s.results[:n])
		for i := range jobs { // overwrite the canary of sealed packets
			if job := &jobs[i]; job.Kind == esp.Seal {
				clear(h.checker.icvEnd(in[i], job)[:canaryBytes/2])
			}
		}
		s.report(seq)
		return nil
	}
	return h, nil
}

// Close frees the engine's memory. The engine must no longer be in use.
func (h *NullDevice) Close() error {
	_ = h.ipsec.deviceJobs.Close()
	return h.mailbox.Close()
}

// Name returns "host".
func (h *NullDevice) Name() string { return "host" }

// Submit executes a chunk.
func (h *NullDevice) Submit(c *batch.Chunk) {
	h.chunk = c
	h.Engine.Submit(c)
}
