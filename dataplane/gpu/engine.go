package gpu

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
)

// Engine is one worker's way to the GPU.
type Engine struct {
	cpu     *cpu.Engine // decides when the GPU is out
	health  *health     // of the device, shared by its workers
	mail    *mailbox
	umem    []byte
	launch  func(slot int, seq uint32, n int) error // nil: the kernel is resident
	timeout time.Duration                           // for a chunk

	flights []flight // chunks that were submitted and not found done, oldest first
	busy    uint64   // a bit for each slot in use
}

// flight is a chunk on its way.
type flight struct {
	chunk *batch.Chunk
	slot  int           // onCPU, or of the mailbox
	since time.Duration // when the GPU had it
}

const onCPU = -1

func newEngine(fallback *cpu.Engine, h *health, m *mailbox, umem []byte, timeout time.Duration) *Engine {
	return &Engine{cpu: fallback, health: h, mail: m, umem: umem, timeout: timeout, flights: make([]flight, 0, 64)}
}

// Name is "gpu" while the GPU decides, "cpu" when it has been taken out.
func (e *Engine) Name() string {
	if e.health.ok() {
		return "gpu"
	}
	return e.cpu.Name()
}

// Submit hands a chunk to the GPU: to the lowest slot that is free, so that at low
// load one block has all the chunks, and looks out for them.
func (e *Engine) Submit(c *batch.Chunk) {
	to := onCPU
	if e.health.ok() {
		for i := range e.mail.slots {
			if e.busy&(1<<i) == 0 {
				to = i
				break
			}
		}
	}
	if to == onCPU {
		e.cpu.Submit(c)
	} else {
		var hurry []byte
		if e.busy == 0 && e.launch == nil { // the GPU has nothing else to do: what counts is when it is back
			hurry = e.umem
		}
		e.busy |= 1 << to
		s := &e.mail.slots[to]
		s.post(c.In[:c.N], hurry)
		if e.launch != nil {
			if err := e.launch(to, s.seq, c.N); err != nil {
				e.health.fail(err)
			}
		}
	}
	e.flights = append(e.flights, flight{c, to, batch.Clock()})
}

// Done tells whether a chunk has been decided on. A chunk for which the GPU takes
// too long, and every other one that it has, is lost, and the CPU carries on.
func (e *Engine) Done(c *batch.Chunk) bool {
	i := 0
	for i < len(e.flights) && e.flights[i].chunk != c {
		i++
	}
	if i == len(e.flights) {
		return true
	}
	if to := e.flights[i].slot; to != onCPU {
		s := &e.mail.slots[to]
		switch {
		case s.finished():
			s.copyResults(c.Out[:c.N])
			e.busy &^= 1 << to
		case !e.health.ok():
			lose(c) // the slot stays busy: the GPU may still come to it
		case batch.Clock()-e.flights[i].since <= e.timeout || s.finished(): // looks again: this thread may have stood still since
			return false
		default:
			e.health.fail(fmt.Errorf("the GPU did not finish %d packets within %v", c.N, e.timeout))
			lose(c)
		}
	}
	e.flights = append(e.flights[:i], e.flights[i+1:]...)
	return true
}

func lose(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Lost}
	}
}
