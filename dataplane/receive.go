package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
)

// receiver fills chunks from the receive rings of the worker's queues.
type receiver struct {
	queues     []Queue
	first      int           // queue that is polled first for the next chunk
	quota      int           // packets of a queue before the next queue is polled
	maxPackets int           // per chunk
	maxDelay   time.Duration // from the first packet of a chunk to its submission
	tallies    []tally       // by port, for the chunk being filled
}

// receive fills a chunk, submits it, and reports whether there were packets. Packets of the pending
// queue are first, then those of the slow path, then received ones.
func (w *worker) receive(now time.Duration) bool {
	w.capture = w.captures.Load()
	if len(w.free) == 0 {
		return false
	}
	c := w.free[len(w.free)-1]
	c.N, c.Retried, c.Received = 0, 0, now
	w.expireFragments(now)
	if g := w.fib.Changes(); w.pending.due(g, now) {
		w.pending.retry(c, g, now, w.handleExpired)
		w.drops.flush(w.counters)
	}
	if w.host.polled {
		w.receiveFromHost(now)
	}
	w.slow.drainTo(c, max(c.N, w.rx.maxPackets))
	w.fill(c)
	if c.N == 0 {
		return false
	}
	w.free = w.free[:len(w.free)-1]
	w.submit(0, c)
	return true
}

// fill adds received packets to a chunk until it is full, all rings are empty, or its first packet
// is maxDelay old. Queues are polled round-robin.
func (w *worker) fill(c *batch.Chunk) {
	rx := &w.rx
	full := max(c.N, rx.maxPackets) // the pending queue can be longer than a reduced maxPackets
	for {
		before := c.N
		for i := range rx.queues {
			queue := (rx.first + i) % len(rx.queues)
			n := rx.queues[queue].Receive(c.In[c.N:min(c.N+rx.quota, full)])
			if n > 0 { // all frames of a queue are of one port
				rx.tallies[c.In[c.N].Origin.Port()].add(c.In[c.N : c.N+n])
			}
			if w.capture != nil {
				w.captureReceived(c, c.N, n, queue)
			}
			c.N += n
		}
		if c.N == before || c.N == full || batch.Clock()-c.Received >= rx.maxDelay {
			break
		}
	}
	for p := range rx.tallies {
		rx.tallies[p].flush(&w.counters[p].rxPackets, &w.counters[p].rxBytes)
	}
	rx.first = (rx.first + 1) % len(rx.queues)
}

// refill gives free frames to the receive rings.
func (w *worker) refill() {
	for _, q := range w.rx.queues {
		q.Refill()
	}
	w.stats.free.Store(int64(w.pool.Len()))
}
