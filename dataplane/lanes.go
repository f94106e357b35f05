package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/lane"
)

// laneState is a worker's state of one lane.
type laneState struct {
	name     string
	deadline time.Duration // of a chunk, from its first packet; 0 for none
	share    int           // percent of each GPU
	inFlight chunkFIFO
	full     bool // the last chunk was: see mayAdd

	// With several lanes.
	waiting laneQueue
	pace    pace
}

// newLanes returns the lanes of a worker with a number of chunks and of frames.
func newLanes(lanes []lane.Lane, chunks, frames int) []laneState {
	if len(lanes) == 0 {
		lanes = []lane.Lane{{Name: "all"}}
	}
	all := make([]laneState, len(lanes))
	soonest := time.Duration(0) // deadline of the lanes before
	for i, l := range lanes {
		all[i] = laneState{name: l.Name, deadline: l.Deadline, share: l.Share, inFlight: chunkFIFO{ring: make([]*batch.Chunk, chunks)}}
		if len(lanes) > 1 {
			all[i].waiting = newLaneQueue(max(1, min(laneQueueSize, frames/(4*len(lanes)))))
			all[i].pace = newPace(soonest / 2)
		}
		if l.Deadline > 0 && (soonest == 0 || l.Deadline < soonest) {
			soonest = l.Deadline
		}
	}
	return all
}

// chunkFIFO is the queue of chunks that the engine has, oldest first. It has room for all chunks of
// the worker.
type chunkFIFO struct {
	ring  []*batch.Chunk
	first int
	n     int
}

func (f *chunkFIFO) at(i int) *batch.Chunk { return f.ring[(f.first+i)%len(f.ring)] }

func (f *chunkFIFO) push(c *batch.Chunk) {
	f.ring[(f.first+f.n)%len(f.ring)] = c
	f.n++
}

func (f *chunkFIFO) pop() *batch.Chunk {
	c := f.ring[f.first]
	f.first = (f.first + 1) % len(f.ring)
	f.n--
	return c
}

// chunkFor returns a free chunk for a lane, or nil. A part of the chunks is reserved for each
// other lane, so that no lane waits for the chunks of another.
func (w *worker) chunkFor(lane int) *batch.Chunk {
	needed := 1
	for i := range w.lanes {
		if i != lane {
			needed += max(0, w.reserved-w.lanes[i].inFlight.n)
		}
	}
	if len(w.free) < needed {
		return nil
	}
	return w.free[len(w.free)-1]
}

// mostInFlight is how many chunks of a lane are in flight at most. Only the last lane may have more, while its chunks are full:
// small ones take the worker and a GPU more time per packet.
const mostInFlight = 6

// mayAdd reports whether a lane may have another chunk in flight.
func (w *worker) mayAdd(lane int) bool {
	l := &w.lanes[lane]
	if lane < len(w.lanes)-1 {
		return l.inFlight.n < mostInFlight
	}
	return l.inFlight.n < w.maxInFlight && (l.inFlight.n < mostInFlight || l.full)
}

// ready reports whether the engine takes a chunk of a lane now. Only the last lane waits for the engine: those before it
// have the packets that are urgent.
func (w *worker) ready(lane int) bool {
	return w.pressure == nil || lane < len(w.lanes)-1 || w.pressure.Ready(uint8(lane))
}

// submit gives a chunk of a lane, the last free one, to the engine.
func (w *worker) submit(lane int, c *batch.Chunk) {
	l := &w.lanes[lane]
	l.full = c.Full
	w.free = w.free[:len(w.free)-1]
	clear(c.Out[:c.N])
	c.Lane, c.Deadline = uint8(lane), 0
	if l.deadline > 0 {
		c.Deadline = c.Received + l.deadline
	}
	c.Idle = time.Duration(w.stats.idle.Load())
	c.Epoch = w.reader.Now()
	if w.inFlight == 0 {
		w.reader.Hold(c.Epoch)
	}
	l.inFlight.push(c)
	w.inFlight++
	c.Submitted = batch.Clock()
	w.engine.Submit(c)
}

// removeOldest removes the oldest chunk in flight of a lane. The worker holds the FIB's epoch of the chunk until
// releaseOldest.
func (w *worker) removeOldest(lane int) *batch.Chunk {
	w.inFlight--
	return w.lanes[lane].inFlight.pop()
}

// releaseOldest ends the use of the FIB for a removed chunk. The worker then holds the epoch of the oldest remaining
// chunk of all lanes.
func (w *worker) releaseOldest() {
	if w.inFlight == 0 {
		w.reader.Release()
		return
	}
	oldest := ^uint64(0)
	for i := range w.lanes {
		if f := &w.lanes[i].inFlight; f.n > 0 {
			oldest = min(oldest, f.at(0).Epoch)
		}
	}
	w.reader.Hold(oldest)
}
