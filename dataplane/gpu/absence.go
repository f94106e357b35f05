package gpu

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
)

// longestPause is how long an engine stays without a GPU that is late again and
// again, as a multiple of the first pause.
const longestPause = 60

// absence is an engine's doing without a GPU that was late with a chunk. The worker
// begins and ends it; whoever likes may read what is atomic.
type absence struct {
	outage atomic.Pointer[Outage] // nil: the engine uses the GPU
	begun  atomic.Uint64          // how often, so far
	ended  atomic.Uint64

	first, pause time.Duration // the shortest pause, and the present or last one
	until        time.Duration // by batch.Clock, the pause's end
	back         time.Duration // when the last absence ended
}

// begin starts a pause: a longer one than the last, unless the GPU has worked since
// for as long as the longest.
func (a *absence) begin(why error) {
	now := batch.Clock()
	if a.pause == 0 || now-a.back > longestPause*a.first {
		a.pause = a.first
	} else {
		a.pause = min(2*a.pause, longestPause*a.first)
	}
	a.until = now + a.pause
	a.outage.Store(&Outage{time.Now(), why})
	a.begun.Add(1)
}

func (a *absence) end() {
	a.back = batch.Clock()
	a.outage.Store(nil)
	a.ended.Add(1)
}

// usable tells whether a chunk may go to the GPU. One that was late may be used
// again after a pause, when it has finished all that it was given up with: not
// before may others have its slots.
func (e *Engine) usable() bool {
	switch {
	case !e.health.ok():
		return false
	case e.absence.outage.Load() == nil:
		return true
	case batch.Clock() < e.absence.until:
		return false
	}
	if !e.Quiesced() {
		return false
	}
	e.absence.end()
	return true
}

// Quiesced reports whether the GPU can no longer write to the frames of chunks that were
// given up: it has finished each of them, or its context was destroyed.
func (e *Engine) Quiesced() bool {
	lost := e.lost.Load()
	if lost == 0 {
		return true
	}
	if !e.health.destroyed.Load() {
		for rest := lost; rest != 0; rest &= rest - 1 {
			if !e.mail.slots[bits.TrailingZeros64(rest)].finished() {
				return false
			}
		}
	}
	e.busy.Store(e.busy.Load() &^ lost)
	e.lost.Store(0)
	return true
}

// giveUp gives up every chunk that the GPU has not finished. Their slots stay busy,
// for the GPU may still come to them.
func (e *Engine) giveUp() {
	lost := e.lost.Load()
	for i := range e.flights {
		if f := &e.flights[i]; f.slot >= 0 && !e.arrived(f) {
			lost |= f.mask()
			f.slot = nowhere
		}
	}
	e.lost.Store(lost)
}
