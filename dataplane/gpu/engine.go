package gpu

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
)

// Engine is one worker's way to the GPU.
type Engine struct {
	cpu     *cpu.Engine // decides when the GPU is out
	health  *health     // of the device, shared by its workers
	absence absence     // the worker's own from the device
	mail    *mailbox
	umem    []byte
	turns   *atomic.Uint32                          // of the tables, as the router has them; the device's follow
	securer *securer                                // nil: the router is no gateway
	launch  func(slot int, seq uint32, n int) error // nil: the kernel is resident
	timeout time.Duration                           // for a chunk
	small   int                                     // see Options.Small

	flights []flight // chunks that were submitted and not found done, oldest first

	// The worker alone writes these.
	busy atomic.Uint64 // a bit for each slot in use,
	lost atomic.Uint64 // and for those of chunks that were given up
	// Chunks that each has decided on: the CPU while the GPU was out, or as they were small.
	byGPU, byCPU, bySize atomic.Uint64
}

// flight is a chunk on its way.
type flight struct {
	chunk *batch.Chunk
	slot  int           // of the mailbox, or one of the following
	since time.Duration // when the GPU had it
}

const (
	onCPU   = -1
	nowhere = -2 // the GPU had it and was given up
	tooNear = -3 // the CPU has it, as it is too small to go that far
)

// newEngine returns an engine without a kernel; of o, it has the times.
func newEngine(fallback *cpu.Engine, h *health, m *mailbox, umem []byte, o Options) *Engine {
	return &Engine{
		cpu: fallback, health: h, absence: absence{first: o.Pause}, mail: m, umem: umem, timeout: o.Timeout, small: o.Small,
		turns: &atomic.Uint32{}, flights: make([]flight, 0, 64),
	}
}

// Name is "gpu" while the GPU decides, "cpu" while it is out.
func (e *Engine) Name() string {
	if e.health.ok() && e.absence.outage.Load() == nil {
		return "gpu"
	}
	return e.cpu.Name()
}

// Submit hands a chunk to the GPU: to the lowest slot that is free, so that at low
// load one block has all the chunks, and looks out for them. A small chunk that finds
// the GPU idle is decided on by the CPU, at once, if the options say so.
func (e *Engine) Submit(c *batch.Chunk) {
	to := onCPU
	switch {
	case !e.usable():
	case c.N <= e.small && len(e.flights) == 0:
		to = tooNear
	default:
		to = e.freeSlot()
	}
	if to < 0 {
		e.cpu.Submit(c)
	} else {
		busy := e.busy.Load()
		var hurry []byte
		if busy == 0 && e.launch == nil { // the GPU has nothing else to do: what counts is when it is back
			hurry = e.umem
		}
		e.busy.Store(busy | 1<<to)
		s := &e.mail.slots[to]
		if s.flags = 0; e.securer != nil && e.securer.begin(e.cpu, c, to) {
			s.flags, hurry = jobsSize, nil
		}
		s.post(c.In[:c.N], hurry)
		if e.launch != nil {
			if err := e.launch(to, s.seq, c.N); err != nil {
				e.health.fail(err)
			}
		}
	}
	e.flights = append(e.flights, flight{c, to, batch.Clock()})
}

// Done tells whether a chunk has been decided on. If the GPU takes too long for it,
// this chunk and every other one that the GPU has are lost, and the CPU carries on.
func (e *Engine) Done(c *batch.Chunk) bool {
	i := 0
	for i < len(e.flights) && e.flights[i].chunk != c {
		i++
	}
	if i == len(e.flights) {
		return true
	}
	f := &e.flights[i]
	if f.slot >= 0 && !e.mail.slots[f.slot].finished() {
		switch {
		case !e.health.ok():
			e.giveUp()
		case batch.Clock()-f.since <= e.timeout || e.mail.slots[f.slot].finished(): // looks again: this thread may have stood still since
			return false
		default:
			e.giveUp()
			e.absence.begin(fmt.Errorf("the GPU did not finish %d packets within %v", c.N, e.timeout))
		}
	}
	switch f.slot {
	case onCPU:
		e.byCPU.Add(1)
	case tooNear:
		e.bySize.Add(1)
	case nowhere:
		lose(c)
	default:
		if s := &e.mail.slots[f.slot]; s.flags == jobsSize {
			e.securer.finish(e.cpu, c, f.slot, s.results)
		} else {
			e.take(s, c)
		}
		e.busy.Store(e.busy.Load() &^ (1 << f.slot))
		e.byGPU.Add(1)
	}
	e.flights = append(e.flights[:i], e.flights[i+1:]...)
	return true
}

// take takes over what the GPU found for a chunk. Where it answered by tables that may have
// changed meanwhile, the CPU decides: the frames are still as they were received.
func (e *Engine) take(s *slot, c *batch.Chunk) {
	s.copyResults(c.Out[:c.N])
	for rest := s.answered; rest != 0; rest &= rest - 1 {
		first := bits.TrailingZeros32(rest) * quadFrames
		end := min(first+quadFrames, c.N)
		in, out := c.In[first:end], c.Out[first:end]
		if s.turns(first) == e.turns.Load() {
			s.deliver(first, in, out, e.umem)
		} else {
			e.cpu.Decide(in, out)
		}
	}
}

// freeSlot returns the lowest free slot, onCPU if there is none.
func (e *Engine) freeSlot() int {
	if free := bits.TrailingZeros64(^e.busy.Load()); free < len(e.mail.slots) {
		return free
	}
	return onCPU
}

func lose(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Lost}
	}
}
