package gpu

import (
	"time"

	"github.com/warproute/warproute/batch"
)

// laneChunks are the submitted chunks of a lane.
type laneChunks struct {
	// On the GPU.
	n           int  // chunks
	used, bytes int  // slots that they need, and bytes of their packets
	slots, size int  // the same of the last one
	plain       bool // few packets of the last one were encrypted or decrypted
	inFirstPass int  // chunks of which beforeLastPass
	receiving   int  // chunks with received ESP

	deferred int // chunks that the CPU has not executed yet; see defers
	full     int // the last chunks in a row that have left packets behind; see saturated
}

func (l *laneChunks) begin(f *flight) {
	l.n, l.used, l.bytes = l.n+1, l.used+f.needed, l.bytes+f.bytes
	l.slots, l.size = f.needed, f.bytes
}

func (l *laneChunks) end(f *flight) { l.n, l.used, l.bytes = l.n-1, l.used-f.needed, l.bytes-f.bytes }

// manyChunks is the largest number of chunks of a lane on the GPU with plain forwarding.
const manyChunks = 8

// Ready implements dataplane.Backpressure. A worker waits for slots while the GPU encrypts or decrypts chunks of the lane, or has many plain ones:
// the CPU would take longer for another one than the wait, and meanwhile the worker would submit nothing to the GPU.
func (e *Engine) Ready(lane uint8) bool {
	if e.ipsec == nil {
		return true
	}
	full := (e.full(lane) || e.draining(lane)) && e.usable()
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

// full reports whether a lane has too few free blocks for another chunk, and this chunk cannot queue.
func (e *Engine) full(lane uint8) bool {
	l := &e.lanes[lane]
	return e.fewFree(lane) && !e.mayQueue(lane, l.slots, l.size)
}

// fewFree reports whether the GPU encrypts or decrypts chunks of a lane and has too few free blocks for another one, or has many plain ones. A worker that
// has its share of them gets more only while half of all are free, so that other workers find theirs.
func (e *Engine) fewFree(lane uint8) bool {
	const spare = 2 // times the blocks of a chunk: other workers may find the same ones free
	l := &e.lanes[lane]
	switch {
	case l.n == 0 || e.late || e.kernel.parked.Load():
		return false
	case l.plain:
		return l.n >= manyChunks
	}
	all := e.available(lane)
	need := max(1, min(spare*l.slots, all/2))
	if l.used+l.slots > e.share(lane) {
		need = max(1, all/2)
	}
	return e.pool.free(e.reserved[lane]) < need
}

// slotWait is the longest time for which Submit waits for slots, such as those that other workers took after Ready. Slots of saturated
// workers become free every few microseconds. Meanwhile the worker serves no other lane.
const slotWait = 50 * time.Microsecond

// awaitSlots takes slots for a chunk that needs at least a number of them, and waits for them if there are too few. It reports whether it
// has found them.
func (e *Engine) awaitSlots(f *flight, request blockRequest, least int) bool {
	found := e.takeSlots(f, request, least)
	for end := time.Duration(0); !found && e.waitsForSlots(f, least, &end); {
		found = e.takeSlots(f, request, least)
	}
	if e.chooser != nil && e.chooser.Waiting() {
		e.chooser.EndWaitChosen(&f.choice, batch.Clock())
	}
	return found
}

// waitsForSlots reports whether Submit is to try again to take slots for a chunk that needs at least a number of them. Without them, the
// CPU executes the chunk, and then those behind it. *end is the end of the wait, and 0 before the first call. After a wait in vain, the
// GPU may be busy with something else: there is no second one until slots are found. If the engine chooses, a worker whose usual engine
// is the CPU does not wait.
func (e *Engine) waitsForSlots(f *flight, least int, end *time.Duration) bool {
	lane, now := f.chunk.Lane, batch.Clock()
	switch {
	case *end == 0:
		if e.ipsec == nil || e.slotsMissed || e.lanes[lane].plain || int(lane) != e.lastLane || least > e.available(lane) {
			return false
		}
		*end = now + slotWait
	case now >= *end:
		e.slotsMissed = true
		return false
	}
	if e.chooser != nil && !e.chooser.WaitChosen(&f.choice, now) {
		return false
	}
	e.freeSlots()
	return e.usable() && !e.kernel.parked.Load()
}

// freeSlots frees the slots of passes that the device has finished.
func (e *Engine) freeSlots() {
	e.advance()
	for i := range e.inFlight {
		if f := &e.inFlight[i]; f.placement == ExecutedOnGPU {
			e.collect(f)
		}
	}
}

// draining reports whether the CPU is to execute chunks behind those on the GPU (deferred.go). A chunk after them would be
// the CPU's, too, and so on for as long as there are packets.
func (e *Engine) draining(lane uint8) bool {
	return e.lanes[lane].deferred > 0 && !e.late && !e.kernel.parked.Load()
}

// share returns the worker's share of the blocks for chunks of a lane.
func (e *Engine) share(lane uint8) int { return e.available(lane) / int(e.pool.workers.Load()) }

// available returns the number of blocks for chunks of a lane.
func (e *Engine) available(lane uint8) int { return e.pool.blocks - e.reserved[lane]*len(e.pool.words) }

// saturated records a chunk, and reports whether its lane has more packets than are processed: more than a few chunks in a row have left
// packets behind, because the worker is the limit, or waits for the GPU. Many small tiles would finish sooner, but take the worker more
// time, and pass the ticket lock more often.
func (e *Engine) saturated(c *batch.Chunk) bool {
	const few = 8
	l := &e.lanes[c.Lane]
	if l.full++; !c.Full {
		l.full = 0
	}
	return l.full > few
}
