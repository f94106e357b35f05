package gpu

import "github.com/warproute/warproute/batch"

// laneChunks are the chunks of a lane on the GPU.
type laneChunks struct {
	n     int  // chunks
	slots int  // that the last one needed at least
	plain bool // few packets of the last one were encrypted or decrypted
}

func (l *laneChunks) begin(slots int) { l.n, l.slots = l.n+1, slots }
func (l *laneChunks) end()            { l.n-- }

// Ready implements dataplane.Backpressure. A worker waits for slots while the GPU encrypts or decrypts chunks of the lane:
// the CPU would take longer for another one than the wait, and meanwhile the worker would submit nothing to the GPU.
func (e *Engine) Ready(lane uint8) bool {
	if e.ipsec == nil {
		return true
	}
	full := e.full(lane) && e.usable()
	switch {
	case e.chooser == nil:
		return !full
	case full:
		return !e.chooser.Wait(lane, batch.Clock())
	case e.chooser.Waiting():
		e.chooser.EndWait(batch.Clock())
	}
	return true
}

// full reports whether the GPU encrypts or decrypts chunks of a lane and has too few free slots for another one.
func (e *Engine) full(lane uint8) bool {
	const spare = 2 // times the slots of a chunk: other workers may find the same ones free
	l := &e.lanes[lane]
	return l.n > 0 && !l.plain && !e.late && !e.kernel.parked.Load() &&
		e.pool.free(e.reserved[lane]) < max(1, min(spare*l.slots, e.available(lane)/2))
}

// available returns the number of slots for chunks of a lane.
func (e *Engine) available(lane uint8) int { return e.pool.slots - e.reserved[lane]*len(e.pool.words) }
