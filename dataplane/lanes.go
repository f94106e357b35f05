package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
)

// laneState is a worker's state of one lane.
type laneState struct {
	deadline time.Duration // of a chunk, from its first packet; 0 for none
	inFlight chunkFIFO
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

// submit gives a chunk of a lane to the engine.
func (w *worker) submit(lane int, c *batch.Chunk) {
	l := &w.lanes[lane]
	clear(c.Out[:c.N])
	c.Lane, c.Deadline = uint8(lane), 0
	if l.deadline > 0 {
		c.Deadline = c.Received + l.deadline
	}
	c.Epoch = w.reader.Now()
	if w.inFlight == 0 {
		w.reader.Hold(c.Epoch)
	}
	l.inFlight.push(c)
	w.inFlight++
	c.Submitted = batch.Clock()
	w.engine.Submit(c)
}

// removeOldest removes the oldest chunk in flight of a lane. The worker then holds the FIB's epoch of the
// oldest remaining chunk of all lanes.
func (w *worker) removeOldest(lane int) *batch.Chunk {
	c := w.lanes[lane].inFlight.pop()
	w.inFlight--
	if w.inFlight == 0 {
		w.reader.Release()
		return c
	}
	oldest := ^uint64(0)
	for i := range w.lanes {
		if f := &w.lanes[i].inFlight; f.n > 0 {
			oldest = min(oldest, f.at(0).Epoch)
		}
	}
	w.reader.Hold(oldest)
	return c
}
