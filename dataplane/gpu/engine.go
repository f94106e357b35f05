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
	checker checker
	shadow  *shadow // nil: no chunk is repeated
	// The most slots that a chunk in a hurry takes: up to half of them, so that what follows
	// finds one.
	shares int

	flights []flight // chunks that were submitted and not found done, oldest first

	// The worker alone writes these.
	busy   atomic.Uint64 // a bit for each slot in use,
	lost   atomic.Uint64 // for those of chunks that were given up,
	joined atomic.Uint64 // and for those that have the same chunk as the one before them
	// Chunks that each has decided on: the CPU while the GPU was out, as they were small, or
	// as all slots were in use.
	byGPU, byCPU, bySize, unplaced atomic.Uint64
}

// flight is a chunk on its way.
type flight struct {
	chunk *batch.Chunk
	slot  int           // of the mailbox, or one of the following
	slots int           // how many it has, from that one on
	taken int           // and from how many the results have been taken over
	since time.Duration // when the GPU had it
}

// mask has a bit for each slot of a chunk that the GPU has.
func (f *flight) mask() uint64 { return (1<<f.slots - 1) << max(f.slot, 0) }

const (
	hurryFrames = headQuads * quadFrames // of a chunk in a hurry that a slot has at most
	maxShares   = 3                      // of such a chunk: with more, copying heads takes longer than they save

	onCPU   = -1
	nowhere = -2 // the GPU had it and was given up
	tooNear = -3 // the CPU has it, as it is too small to go that far,
	noPlace = -4 // or as there was no slot for it
)

// newEngine returns an engine without a kernel; of o, it has the times.
func newEngine(fallback *cpu.Engine, h *health, m *mailbox, umem []byte, o Options) *Engine {
	return &Engine{
		cpu: fallback, health: h, absence: absence{first: o.Pause}, mail: m, umem: umem, timeout: o.Timeout, small: o.Small,
		checker: newChecker(umem, h, len(o.Repair), fallback.Adjacencies()),
		shares:  max(1, min(maxShares, len(m.slots)/2)), turns: &atomic.Uint32{}, flights: make([]flight, 0, 64),
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
	to, slots := onCPU, 0
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
		slots = e.post(c, to)
	}
	f := flight{c, to, slots, 0, batch.Clock()}
	mask := f.mask()
	e.joined.Store(e.joined.Load()&^mask | mask&(mask-1))
	e.busy.Store(e.busy.Load() | mask)
	e.flights = append(e.flights, f)
}

// Datagram is dataplane.Datagrams': the CPU decides on what no frame holds.
func (e *Engine) Datagram(p []byte, port uint16) (batch.Frame, batch.Result, []byte) {
	return e.cpu.Datagram(p, port)
}

// post gives a chunk to the block of a slot that is free, and returns how many slots it took.
// Where the GPU has nothing else to do, what counts is when it is back: heads go along, and
// blocks share a chunk of more packets than one takes with their heads.
func (e *Engine) post(c *batch.Chunk, to int) int {
	s, slots := &e.mail.slots[to], (c.N+hurryFrames-1)/hurryFrames
	var tasks []cpu.Task
	if e.securer != nil {
		tasks = e.securer.begin(e.cpu, &e.checker, c, to)
	}
	e.shadow.keep(c, tasks)
	switch {
	case tasks != nil:
		s.post(c.In[:c.N], nil, jobsSize)
	case e.launch == nil && e.busy.Load() == 0 && slots <= e.shares:
		for k := range slots {
			in, _ := share(c, k, slots)
			e.mail.slots[to+k].post(in, e.umem, 0)
		}
		return slots
	default:
		s.post(c.In[:c.N], nil, 0)
	}
	if e.launch != nil {
		if err := e.launch(to, s.seq, c.N); err != nil {
			e.health.fail(err)
		}
	}
	return 1
}

// share returns what the kth of a chunk's slots has of it.
func share(c *batch.Chunk, k, slots int) ([]batch.Frame, []batch.Result) {
	first, end := c.N*k/slots, c.N*(k+1)/slots
	return c.In[first:end], c.Out[first:end]
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
	if f.slot >= 0 && !e.arrived(f) {
		switch {
		case !e.health.ok():
			e.giveUp()
		case batch.Clock()-f.since <= e.timeout || e.arrived(f): // looks again: this thread may have stood still since
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
	case noPlace:
		e.unplaced.Add(1)
	case nowhere:
		lose(c)
		e.shadow.forget(c)
	default:
		e.busy.Store(e.busy.Load() &^ f.mask())
		e.byGPU.Add(1)
	}
	e.flights = append(e.flights[:i], e.flights[i+1:]...)
	return true
}

// arrived tells whether the GPU is done with a chunk, and takes over what there is of it.
func (e *Engine) arrived(f *flight) bool {
	for ; f.taken < f.slots; f.taken++ {
		s := &e.mail.slots[f.slot+f.taken]
		if !s.finished() {
			return false
		}
		if s.flags == jobsSize {
			e.securer.finish(e, f.chunk, f.slot, s.results)
		} else {
			in, out := share(f.chunk, f.taken, f.slots)
			e.take(s, in, out)
			if f.taken == f.slots-1 {
				e.shadow.compare(f.chunk, nil)
			}
		}
	}
	return true
}

// take takes over what the GPU found for a slot's packets. Where it answered by tables that may
// have changed meanwhile, the CPU decides: the frames are still as they were received.
func (e *Engine) take(s *slot, in []batch.Frame, out []batch.Result) {
	s.copyResults(out)
	for rest := s.answered; rest != 0; rest &= rest - 1 {
		first := bits.TrailingZeros32(rest) * quadFrames
		end := min(first+quadFrames, len(in))
		in, out := in[first:end], out[first:end]
		if s.turns(first) == e.turns.Load() {
			s.deliver(first, in, out, e.umem)
		} else {
			e.cpu.Decide(in, out)
		}
	}
	e.checker.check(in, out)
}

// freeSlot returns the lowest free slot, noPlace if there is none.
func (e *Engine) freeSlot() int {
	if free := bits.TrailingZeros64(^e.busy.Load()); free < len(e.mail.slots) {
		return free
	}
	return noPlace
}

func lose(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Lost}
	}
}
