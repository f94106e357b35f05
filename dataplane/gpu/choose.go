package gpu

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/gpu/choice"
)

// choose returns ExecutedOnGPU if a chunk is to be the GPU's, or why the CPU executes it. If the kernel is
// parked, any chunk wakes it; if the engine chooses, only a load that needs the GPU does, or a chunk that would take the CPU long.
func (e *Engine) choose(f *flight) Placement {
	state, p := choice.Ready, ExecutedOnGPU
	switch {
	case e.lanes[f.chunk.Lane].deferred > 0:
		state, p = choice.Late, GPULate
	case !e.usable():
		state, p = choice.Out, ExecutedOnCPU
	case e.late:
		state, p = choice.Late, GPULate
	case e.kernel.parked.Load():
		state, p = choice.Parked, KernelParked
	}
	if e.chooser == nil {
		if p == KernelParked {
			e.kernel.requestWake()
		}
		return p
	}
	f.choice = e.chooser.Choose(e.work(f), e.situation(f.chunk, state))
	switch {
	case p == KernelParked:
		if e.chooser.MustWake(&f.choice) {
			e.kernel.requestWake()
		}
	case p != ExecutedOnGPU:
	case f.choice.Engine == choice.GPU:
		e.kernel.backlog.Add(int64(f.bytes))
	case f.choice.Reason == choice.Explored:
		p = CPUExplored
	default:
		p = CPUSooner
	}
	return p
}

// withdrawChoice makes a chunk that was chosen for the GPU the CPU's.
func (e *Engine) withdrawChoice(f *flight) {
	if e.chooser != nil {
		e.kernel.backlog.Add(-int64(f.bytes))
		e.chooser.Refuse(&f.choice)
	}
}

// work describes a chunk to the chooser.
func (e *Engine) work(f *flight) choice.Work {
	c := f.chunk
	return choice.Work{Packets: c.N, Bytes: f.bytes, Class: e.traffic[c.Lane].class, Full: c.Full}
}

// situation describes the worker and the GPU, which has a state.
func (e *Engine) situation(c *batch.Chunk, state choice.State) choice.Situation {
	idle := c.Idle
	if idle == 0 {
		idle = -1 // submitted by no worker
	}
	l := &e.lanes[c.Lane]
	return choice.Situation{Now: batch.Clock(), Idle: idle, Lane: c.Lane, GPU: state, Behind: l.receiving > 0 || l.inFirstPass > 0, Backlog: int(e.kernel.backlog.Load())}
}

// setReceiving sets whether a chunk on the GPU has received ESP packets. While one has, the CPU would defer
// chunks.
func (e *Engine) setReceiving(f *flight, receiving bool) {
	l := &e.lanes[f.chunk.Lane]
	switch {
	case receiving && !f.receiving:
		l.receiving++
	case !receiving && f.receiving:
		l.receiving--
	}
	f.receiving = receiving
}

// observeSubmit learns from the submission of a chunk.
func (e *Engine) observeSubmit(f *flight) {
	if f.deferred {
		return // not executed yet; its wait for the GPU is no cost of the CPU
	}
	if f.pass == lastPass || f.placement != ExecutedOnGPU {
		e.traffic[f.chunk.Lane].class = e.classOf(f)
	}
	f.class = e.traffic[f.chunk.Lane].class
	if f.choice.Engine == choice.GPU {
		e.chooser.Block(&f.choice, f.submitted-f.choice.Submitted())
	} else {
		e.chooser.FinishCPU(&f.choice, f.class, f.submitted)
	}
}

// classOf returns the class of a chunk that was submitted last. The next one of its lane is expected to be of
// the same class.
func (e *Engine) classOf(f *flight) choice.Class {
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

// observeResult records that a poll has found a chunk finished.
func (e *Engine) observeResult(f *flight) {
	if e.chooser != nil {
		f.seen = batch.Clock()
	}
}

// observeDone learns from a chunk of which the GPU's part and the host's are finished.
func (e *Engine) observeDone(f *flight) {
	if e.chooser == nil {
		return
	}
	e.kernel.backlog.Add(-int64(f.bytes))
	if f.choice.Reason == choice.Explored {
		e.explored.Add(1)
	}
	e.chooser.FinishGPU(&f.choice, f.class, f.polled, f.seen, batch.Clock())
}

// observeLost forgets a chunk that the GPU has not finished.
func (e *Engine) observeLost(f *flight) {
	if e.chooser == nil {
		return
	}
	e.kernel.backlog.Add(-int64(f.bytes))
	e.chooser.Abandon(&f.choice)
}
