package gpu

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/esp"
)

// Engine is the GPU engine of one worker.
type Engine struct {
	cpu        *cpu.Engine // fallback
	esp        *esp.Stage  // nil: no IPsec
	state      *deviceState
	outage     workerOutage
	mailbox    *mailbox
	umem       []byte
	generation *atomic.Uint32                          // of the router's tables; the device's copy follows
	ipsec      *ipsecPath                              // nil: no IPsec
	launch     func(slot int, seq uint32, n int) error // nil: the kernel is resident
	timeout    time.Duration                           // for a chunk
	small      int                                     // Options.Small
	split      int                                     // maximum slots of a chunk: half of them, so that the next chunk finds one
	checker    checker
	shadow     *shadow // nil: off

	inFlight []flight // submitted chunks, oldest first

	// Bits by slot, written by the worker alone.
	busy      atomic.Uint64 // slots in use
	lost      atomic.Uint64 // slots of abandoned chunks
	continued atomic.Uint64 // slots with the same chunk as the slot before

	executed [numPlacements]atomic.Uint64 // chunks, written by the worker alone
}

// flight is a submitted chunk.
type flight struct {
	chunk     *batch.Chunk
	placement Placement
	slot      int           // first slot in the mailbox
	slots     int           // number of slots
	finished  int           // slots that finishSlots has finished
	submitted time.Duration // time of submission, by batch.Clock
}

// mask returns the bits of the slots of a chunk.
func (f *flight) mask() uint64 { return (1<<f.slots - 1) << f.slot }

// Placement is where a chunk was executed, and why.
type Placement uint8

const (
	ExecutedOnGPU  Placement = iota
	ExecutedOnCPU            // the GPU was out of use
	BelowThreshold           // on the CPU: a small chunk, and no other in flight
	NoFreeSlot               // on the CPU: all slots were busy
	Abandoned                // the GPU did not finish it
	numPlacements
)

const (
	inlineFrames = inlineBatches * batchFrames // maximum packets of a slot with inlined headers
	maxSplit     = 3                           // maximum slots of a chunk; copying more headers costs more than it saves
)

// newEngine returns an engine without a kernel. It uses the times and thresholds of o.
func newEngine(fallback *cpu.Engine, state *deviceState, m *mailbox, umem []byte, o Options) *Engine {
	return &Engine{
		cpu: fallback, esp: fallback.ESP(), state: state, outage: workerOutage{first: o.Pause}, mailbox: m, umem: umem, timeout: o.Timeout, small: o.Small,
		checker: newChecker(umem, state, len(o.PartialChecksums), fallback.Adjacencies()),
		split:   max(1, min(maxSplit, len(m.slots)/2)), generation: &atomic.Uint32{}, inFlight: make([]flight, 0, 64),
	}
}

// Name returns "gpu" while the GPU is in use, else the name of the CPU engine.
func (e *Engine) Name() string {
	if e.state.ok() && e.outage.current.Load() == nil {
		return "gpu"
	}
	return e.cpu.Name()
}

// Submit passes a chunk to the GPU, in the lowest free slot: at low load one block serves all chunks,
// and polls for them. The CPU engine executes the chunk if the GPU is out of use, if no slot is free,
// or if the chunk is small and no other in flight.
func (e *Engine) Submit(c *batch.Chunk) {
	f := flight{chunk: c}
	if f.slot, f.placement = e.place(c); f.placement == ExecutedOnGPU {
		f.slots = e.post(c, f.slot)
	} else {
		e.cpu.Submit(c)
	}
	f.submitted = batch.Clock()
	mask := f.mask()
	e.continued.Store(e.continued.Load()&^mask | mask&(mask-1))
	e.busy.Store(e.busy.Load() | mask)
	e.inFlight = append(e.inFlight, f)
}

// place returns the slot for a chunk, or why the CPU executes it. A small chunk goes to the CPU only if no
// chunk is in flight, on the CPU included, for chunks complete in order. (For post the GPU is idle if no
// slot is in use: one may be, by an abandoned chunk, and none by a chunk on the CPU.)
func (e *Engine) place(c *batch.Chunk) (slot int, p Placement) {
	switch {
	case !e.usable():
		return 0, ExecutedOnCPU
	case c.N <= e.small && len(e.inFlight) == 0:
		return 0, BelowThreshold
	}
	if slot = bits.TrailingZeros64(^e.busy.Load()); slot >= len(e.mailbox.slots) {
		return 0, NoFreeSlot
	}
	return slot, ExecutedOnGPU
}

// ProcessReassembled implements dataplane.ReassembledEngine on the CPU: the packet is in no frame.
func (e *Engine) ProcessReassembled(p []byte, origin batch.Origin) (batch.Frame, batch.Result, []byte) {
	return e.cpu.ProcessReassembled(p, origin)
}

// post writes a chunk to free slots and returns their number: one, or several on the low-latency path,
// where a slot has inlined headers of inlineFrames packets. That path is for an idle GPU: no slot is in use.
func (e *Engine) post(c *batch.Chunk, first int) int {
	s, slots := &e.mailbox.slots[first], (c.N+inlineFrames-1)/inlineFrames
	var jobs []esp.Job
	if e.ipsec != nil {
		jobs = e.ipsec.begin(e.esp, &e.checker, c, first)
	}
	e.shadow.keep(c, jobs)
	switch {
	case jobs != nil:
		s.post(c.In[:c.N], nil, hasJobsFlag)
	case e.launch == nil && e.busy.Load() == 0 && slots <= e.split:
		for k := range slots {
			in, _ := slotPackets(c, k, slots)
			e.mailbox.slots[first+k].post(in, e.umem, 0)
		}
		return slots
	default:
		s.post(c.In[:c.N], nil, 0)
	}
	if e.launch != nil {
		if err := e.launch(first, s.seq, c.N); err != nil {
			e.state.fail(err)
		}
	}
	return 1
}

// slotPackets returns the packets of a chunk in its k-th slot.
func slotPackets(c *batch.Chunk, k, slots int) ([]batch.Frame, []batch.Result) {
	first, end := c.N*k/slots, c.N*(k+1)/slots
	return c.In[first:end], c.Out[first:end]
}

// Done reports whether a chunk is done. On a GPU timeout all unfinished chunks on the GPU are lost. It may
// sleep for a comparison: see retries.
func (e *Engine) Done(c *batch.Chunk) bool {
	i := 0
	for i < len(e.inFlight) && e.inFlight[i].chunk != c {
		i++
	}
	if i == len(e.inFlight) {
		return true
	}
	f := &e.inFlight[i]
	if f.placement == ExecutedOnGPU && !e.finishSlots(f) {
		switch {
		case !e.state.ok():
			e.abandon()
		case batch.Clock()-f.submitted <= e.timeout || e.finishSlots(f): // polls again: the thread may have been descheduled
			return false
		default:
			e.abandon()
			e.outage.begin(fmt.Errorf("GPU timeout: %d packets not finished within %v", c.N, e.timeout))
		}
	}
	switch f.placement {
	case ExecutedOnGPU:
		e.busy.Store(e.busy.Load() &^ f.mask())
	case Abandoned:
		lose(c)
		e.shadow.forget(c)
	}
	e.executed[f.placement].Add(1)
	e.inFlight = append(e.inFlight[:i], e.inFlight[i+1:]...)
	return true
}

// finishSlots does the host's part for the slots of a chunk that the device has finished: it copies and
// checks the results, confirms replay windows and applies inbound policies (ipsecPath.finish), and
// compares the chunk with the CPU's results (shadow). It reports whether all slots are finished.
func (e *Engine) finishSlots(f *flight) bool {
	for ; f.finished < f.slots; f.finished++ {
		s := &e.mailbox.slots[f.slot+f.finished]
		if !s.finished() {
			return false
		}
		if s.flags == hasJobsFlag {
			e.ipsec.finish(e, f.chunk, f.slot, s.results)
		} else {
			in, out := slotPackets(f.chunk, f.finished, f.slots)
			e.finishRouted(s, in, out)
			if f.finished == f.slots-1 {
				e.shadow.compare(f.chunk, nil)
			}
		}
	}
	return true
}

// finishRouted copies and checks the results of a slot without jobs. If the tables changed after an inline completion, the CPU
// executes its packets: their frames are unchanged.
func (e *Engine) finishRouted(s *slot, in []batch.Frame, out []batch.Result) {
	s.copyResults(out)
	for rest := s.completed; rest != 0; rest &= rest - 1 {
		first := bits.TrailingZeros32(rest) * batchFrames
		end := min(first+batchFrames, len(in))
		in, out := in[first:end], out[first:end]
		if s.generation(first) == e.generation.Load() {
			s.applyCompletions(first, in, out, e.umem)
		} else {
			e.cpu.Decide(in, out)
		}
	}
	e.checker.check(in, out)
}

// lose marks the packets of a chunk as lost.
func lose(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Lost}
	}
}
