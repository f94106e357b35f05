package dataplane

import (
	"math/bits"
	"time"

	"github.com/warproute/warproute/batch"
)

// laneQueue is a worker's queue of received packets of one lane that are in no chunk yet, oldest first. When
// it is full, further packets are dropped: they would keep packets of other lanes waiting in the receive
// rings.
type laneQueue struct {
	ring     []batch.Frame // its length is a power of two
	first, n int
	most     int // of n
	arrivals arrivals
}

// arrivals are the times at which the packets of a queue arrived, oldest first. Packets that arrived together
// share an entry; if there are too many entries, later packets share the last one, and seem older than they are.
type arrivals struct {
	ring [64]struct {
		at time.Duration
		n  int
	}
	first, n uint
}

// laneQueueSize is the largest number of packets of a lane that a worker keeps for later chunks: as many as a
// receive ring. The queues of all lanes use a quarter of the worker's frames at most, so that the receive
// rings have frames whatever a lane waits for.
const laneQueueSize = 2048

// newLaneQueue returns a queue for up to a number of packets.
func newLaneQueue(most int) laneQueue {
	return laneQueue{ring: make([]batch.Frame, 1<<bits.Len(uint(most))), most: most}
}

// push adds packets that arrived at a time, as many as there is room for, and returns their number.
func (q *laneQueue) push(frames []batch.Frame, at time.Duration) (n int) {
	n = min(len(frames), q.most-q.n)
	if n == 0 {
		return 0
	}
	fit := copy(q.ring[(q.first+q.n)&(len(q.ring)-1):], frames[:n]) // before the end of the ring
	copy(q.ring, frames[fit:n])
	q.n += n
	q.arrivals.add(at, n)
	return n
}

func (a *arrivals) add(at time.Duration, n int) {
	const size = uint(len(a.ring))
	if a.n > 0 {
		if last := &a.ring[(a.first+a.n-1)%size]; last.at == at || a.n == size {
			last.n += n
			return
		}
	}
	a.ring[(a.first+a.n)%size].at, a.ring[(a.first+a.n)%size].n = at, n
	a.n++
}

// remove removes the oldest packets.
func (a *arrivals) remove(n int) {
	for n > 0 {
		e := &a.ring[a.first%uint(len(a.ring))]
		k := min(n, e.n)
		n -= k
		if e.n -= k; e.n == 0 {
			a.first++
			a.n--
		}
	}
}

// take moves the oldest packets to a chunk, until it has limit packets, or so many bytes (0: any number).
// It takes one packet at least if there is room for it. limited reports whether the bytes have ended the chunk.
func (q *laneQueue) take(c *batch.Chunk, limit, bytes int) (limited bool) {
	if q.n == 0 || c.N >= limit {
		c.Full = q.n > 0
		return false
	}
	c.Received = min(c.Received, q.arrivals.ring[q.arrivals.first%uint(len(q.arrivals.ring))].at)
	taken, size := 0, 0
	for taken < q.n && c.N < limit {
		f := q.ring[q.first]
		if size += int(f.Len); bytes > 0 && size > bytes && taken > 0 {
			limited, c.Full = true, true
			break
		}
		c.In[c.N] = f
		c.N++
		taken++
		q.first = (q.first + 1) & (len(q.ring) - 1)
	}
	c.Full = c.Full || c.N >= limit
	q.n -= taken
	q.arrivals.remove(taken)
	return limited
}

// pop removes the oldest packet.
func (q *laneQueue) pop() batch.Frame {
	f := q.ring[q.first]
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
	q.arrivals.remove(1)
	return f
}
