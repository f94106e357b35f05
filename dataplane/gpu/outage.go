package gpu

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
)

// maxPause is the longest pause after repeated GPU timeouts, as a multiple of the first pause.
const maxPause = 60

// workerOutage is the time in which a worker does not use the GPU, after a GPU timeout. The worker
// writes it. Any goroutine reads the atomic fields.
type workerOutage struct {
	current    atomic.Pointer[Outage] // nil: the worker uses the GPU
	timeouts   atomic.Uint64
	recoveries atomic.Uint64

	first, pause time.Duration // the shortest pause; the current or last one
	until        time.Duration // end of the pause, by batch.Clock
	recovered    time.Duration // end of the last outage
}

// begin starts an outage. Its pause is twice the previous one, or the first one if the GPU has worked
// for as long as the longest pause.
func (o *workerOutage) begin(why error) {
	now := batch.Clock()
	if o.pause == 0 || now-o.recovered > maxPause*o.first {
		o.pause = o.first
	} else {
		o.pause = min(2*o.pause, maxPause*o.first)
	}
	o.until = now + o.pause
	o.current.Store(&Outage{time.Now(), why})
	o.timeouts.Add(1)
}

func (o *workerOutage) end() {
	o.recovered = batch.Clock()
	o.current.Store(nil)
	o.recoveries.Add(1)
}

// usable reports whether the GPU accepts chunks. It ends an outage after its pause, when the GPU has
// finished all abandoned chunks.
func (e *Engine) usable() bool {
	switch {
	case !e.state.ok() || e.state.stale.Load() != nil:
		return false
	case e.outage.current.Load() == nil:
		return true
	case batch.Clock() < e.outage.until || !e.Quiesced():
		return false
	}
	e.outage.end()
	return true
}

// Quiesced reports whether the GPU no longer writes to frames of abandoned chunks: it has finished
// them, or its context was destroyed.
func (e *Engine) Quiesced() bool {
	if len(e.lost) == 0 {
		return true
	}
	if !e.state.destroyed.Load() {
		for _, s := range e.lost {
			if !e.mailbox.slots[s].finished() {
				return false
			}
		}
	}
	for i := range e.lost {
		e.release(e.lost[i : i+1])
	}
	e.lost = e.lost[:0]
	e.lostNow.Store(0)
	return true
}

// abandonTiles leaves the slots of unfinished tiles to the GPU, and returns the others of a chunk.
func (e *Engine) abandonTiles(f *flight) {
	switch f.pass {
	case waiting:
		e.lanes[f.chunk.Lane].inFirstPass--
		e.release(f.slots[:f.tiles])
		return
	case firstPass:
		e.lanes[f.chunk.Lane].inFirstPass--
		if f.assignsSeqs() {
			e.seqAssign.joinsAbandoned, e.seqAssign.lockBroken = true, e.seqAssign.lockBroken || e.seqAssign.joining
		}
		e.release(f.slots[:f.finished])
	}
	e.lost = append(e.lost, f.slots[f.finished:f.tiles]...)
	e.lostNow.Add(1)
}

// abandon abandons all unfinished chunks on the GPU. Their slots stay in use, as the GPU may still
// process them.
func (e *Engine) abandon() {
	for i := range e.inFlight {
		if f := &e.inFlight[i]; f.placement == ExecutedOnGPU && !e.collect(f) {
			e.abandonTiles(f) // before ended: see chunksOnGPU
			e.onGPU.Add(-1)
			e.lanes[f.chunk.Lane].end(f)
			e.ended[f.chunk.Lane].Add(1)
			e.observeLost(f)
			e.setReceiving(f, false)
			f.placement = Abandoned
		}
	}
}
