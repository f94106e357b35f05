package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
)

// NullDevice is an IPsec engine without a GPU: only the host's part of the work remains. It is for
// measurements.
type NullDevice struct{ *Engine }

// NewNullDevice returns such an engine. device replaces the GPU: it fills in the results of packets, by
// their frames and jobs.
func NewNullDevice(worker *cpu.Engine, umem []byte, chunks, size int, device func(in []batch.Frame, jobs []esp.Job, results []batch.Result)) (*NullDevice, error) {
	mailbox, err := newMailbox(maxTiles, 1, gatewayThreads/32)
	if err != nil {
		return nil, err
	}
	pool := newBlockPool(len(mailbox.blocks))
	pool.open()
	e := newEngine(worker, &deviceState{}, &kernelState{}, mailbox, pool, umem, Options{}.withDefaults())
	e.ipsec = newIPsecPath(chunks, size, ipsec.NoKeyIndex)
	for lane := range e.traffic { // the host makes all jobs
		t := &e.traffic[lane]
		t.finding.fixed, t.classifying.fixed, t.expected.fixed = true, true, true
	}
	plain := make([]esp.Job, size)
	e.fakeGPU = func(f *flight) {
		for k := range f.tiles {
			s, first, end := &mailbox.slots[f.slots[k]], f.tileStart(k), f.tileStart(k+1)
			in, jobs := f.chunk.In[first:end], plain
			if f.jobs != nil {
				jobs = f.jobs[first:end]
			}
			device(in, jobs, s.results[:len(in)])
			for i := range in { // overwrite the canary of sealed packets
				if job := &jobs[i]; job.Kind == esp.Seal {
					clear(e.checker.icvEnd(in[i], job)[:canaryBytes/2])
				}
			}
			s.report()
		}
	}
	return &NullDevice{e}, nil
}

// Close frees the engine's memory. The engine must no longer be in use.
func (h *NullDevice) Close() error { return h.mailbox.Close() }

// Name returns "host".
func (h *NullDevice) Name() string { return "host" }

// Admitted returns a device's result of a packet that it has opened and forwards, and that its policies admit.
func Admitted(r batch.Result) batch.Result {
	return batch.ForwardTo(r.Verdict.Port(), r.Addr()|esp.Admitted, r.Len())
}
