package gpu

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// plainBytes is the number of bytes that a packet moves over PCIe if it is not encrypted or decrypted.
const plainBytes = 64

// chooses reports whether the engine chooses between CPU and GPU.
func (e *Engine) chooses() bool { return !e.chooser.Fixed() }

// choose returns ExecutedOnGPU if a chunk is to be the GPU's, or why the CPU executes it. A parked kernel is
// wanted for any chunk, or by an engine that chooses, only for a load that needs it.
func (e *Engine) choose(f *flight, now time.Duration) Placement {
	c := f.chunk
	f.bytes = plainBytes * c.N
	if e.esp != nil {
		f.bytes = 0
		for i := range c.In[:c.N] {
			f.bytes += int(c.In[i].Len)
		}
	}
	idle := c.Idle
	if idle == 0 {
		idle = -1 // submitted by no worker
	}
	at := choice.Situation{Now: now, Idle: idle, Lane: c.Lane, Backlog: int(e.kernel.backlog.Load())}
	switch {
	case e.deferred > 0:
		at.GPU = choice.Late
	case !e.usable():
		at.GPU = choice.Out
	case e.late:
		at.GPU = choice.Late
	case e.kernel.parked.Load():
		at.GPU = choice.Parked
	}
	f.choice = e.chooser.Choose(choice.Work{Packets: c.N, Bytes: f.bytes, Class: e.class}, at)
	switch {
	case at.GPU == choice.Out:
		return ExecutedOnCPU
	case at.GPU == choice.Late:
		return GPULate
	case at.GPU == choice.Parked:
		if !e.chooses() || e.chooser.Load.MustWake(now) {
			e.kernel.requestWake()
		}
		return KernelParked
	case f.choice.Engine == choice.GPU:
		return ExecutedOnGPU
	case f.choice.Reason == choice.Explored:
		return CPUExplored
	}
	return CPUSooner
}

// observeSubmit learns from a chunk that has blocked the worker for some time.
func (e *Engine) observeSubmit(f *flight, blocked time.Duration) {
	if f.deferred {
		return // not executed yet; its wait for the GPU is no cost of the CPU
	}
	e.class = e.classify(f)
	f.class = e.class
	if f.choice.Engine == choice.GPU {
		e.chooser.Block(&f.choice, blocked)
	} else {
		e.chooser.FinishCPU(&f.choice, f.class, f.submitted)
	}
}

// classify returns the class of a chunk that was submitted last. The next one is expected to be of
// the same class.
func (e *Engine) classify(f *flight) choice.Class {
	if e.esp == nil {
		return choice.Forward
	}
	const few = 8 // packets of which one is encrypted or decrypted
	switch aead, hmac := e.esp.Protected(); {
	case (aead+hmac)*few < f.chunk.N:
		return choice.Forward
	case hmac > aead/2: // they cost more
		return choice.HMAC
	}
	return choice.AEAD
}

// observeDone learns from a chunk that the GPU has finished, as a poll has seen.
func (e *Engine) observeDone(f *flight, seen time.Duration) {
	e.kernel.backlog.Add(-int64(f.bytes))
	if f.choice.Reason == choice.Explored {
		e.explored.Add(1)
	}
	e.chooser.FinishGPU(&f.choice, f.class, f.polled, seen, batch.Clock())
}

// observeLost forgets a chunk that the GPU has not finished.
func (e *Engine) observeLost(f *flight) {
	e.kernel.backlog.Add(-int64(f.bytes))
	e.chooser.Abandon(&f.choice)
}
