package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
)

// receiver fills chunks from the receive rings of the worker's queues.
type receiver struct {
	queues     []Queue
	filled     []Queue       // of these, the ones that get frames to receive into
	first      int           // queue that is polled first for the next chunk
	quota      int           // packets of a queue before the next queue is polled
	maxPackets int           // per chunk: see limit
	maxBytes   int           // of the received packets of a chunk; 0 for any number
	maxFrame   int           // bytes of the longest frame
	maxDelay   time.Duration // from the first packet of a chunk to its submission
	tallies    []tally       // by port, for the chunk being filled
}

// receive fills a chunk, submits it, and reports whether there were packets. Packets of the pending
// queue are first, then those of the slow path, then received ones.
func (w *worker) receive(now time.Duration) bool {
	w.logical.flushOld(now)
	if len(w.lanes) > 1 {
		return w.receiveLanes(now)
	}
	w.capture = w.captures.Load()
	if len(w.free) == 0 || !w.mayAdd(0) || !w.ready(0) {
		return false
	}
	c := w.free[len(w.free)-1]
	c.N, c.Retried, c.Received, c.Full, c.Cached = 0, 0, now, false, false
	w.expireFragments(now)
	if g := w.fib.Changes(); w.pending.due(g, now) {
		w.pending.retry(c, g, now, w.handleExpired)
		w.stats.waiting.Store(int64(w.pending.n)) // before the drops, as in finish
		w.drops.flush(w.counters)
	}
	most := c.N + (len(c.In)-c.N+1)/2 // of the slow path: half of the room that is left, usually more than its queue has
	w.slow.drainTo(c, most)
	w.receiveFromLinux(now, most-c.N) // behind them, when its queue has places
	w.slow.drainTo(c, most)
	w.fill(c)
	if c.N == 0 {
		return false
	}
	w.submit(0, c)
	return true
}

// limit returns the largest number of packets of a chunk that has packets of the pending queue and the slow path: maxPackets, or more, so
// that half of maxPackets are received ones, or as many as there is room for.
func (rx *receiver) limit(c *batch.Chunk) int {
	return max(rx.maxPackets, min(c.N+(rx.maxPackets+1)/2, len(c.In)))
}

// fill adds received packets to a chunk until it is full, all rings are empty, or its first packet
// is maxDelay old. Queues are polled round-robin.
func (w *worker) fill(c *batch.Chunk) {
	rx := &w.rx
	first, full := c.N, rx.limit(c) // first of the received packets
	bytes, uncached := 0, c.N       // packets in the pending queue and on the slow path have waited; their bytes do not count
	for {
		before, more := c.N, false
		for i := range rx.queues {
			queue := (rx.first + i) % len(rx.queues)
			end := min(c.N+rx.quota, full)
			if rx.maxBytes > 0 {
				end = min(end, c.N+rx.room(c.N-first, bytes))
			}
			n := rx.queues[queue].Receive(c.In[c.N:end])
			more = more || n > 0 && c.N+n == end
			received := c.In[c.N : c.N+n]
			if n > 0 { // all frames of a queue are of one port
				port := received[0].Origin.Port()
				kept, cached := w.countAndUntag(port, received)
				if !cached {
					uncached += kept
				}
				n, received = kept, received[:kept]
			}
			if rx.maxBytes > 0 {
				for j := range received {
					bytes += int(received[j].Len)
				}
			}
			if w.capture != nil {
				w.captureReceived(received, c.Received, queue, c, c.N)
			}
			c.N += n
		}
		c.Full = more || c.N == full || rx.maxBytes > 0 && rx.room(c.N-first, bytes) == 0 || w.slow.n > 0 || w.host.more || w.exit.more
		if c.N == before || c.N == full || batch.Clock()-c.Received >= rx.maxDelay {
			break
		}
	}
	c.Cached = uncached == 0
	w.flushReceived()
	w.drops.flush(w.counters)
}

// countAndUntag counts the frames that a port received, removes their VLAN tags, and drops those of unknown VLANs. It returns
// the number of the others, and whether it has brought their headers into the cache.
func (w *worker) countAndUntag(port uint16, frames []batch.Frame) (kept int, cached bool) {
	if !w.logical.table.Tagged(port) { // read after Receive: the XDP program passes frames of a VLAN only once the table has it
		w.rx.tallies[port].add(frames)
		return len(frames), false
	}
	kept, bytes, cached := w.untag(frames)
	w.rx.tallies[port].addBytes(len(frames), bytes)
	return kept, cached
}

// flushReceived counts the packets of the polled queues. The next poll begins with the next queue.
func (w *worker) flushReceived() {
	rx := &w.rx
	for _, p := range w.open {
		rx.tallies[p].flush(&w.counters[p].rxPackets, &w.counters[p].rxBytes)
	}
	if rx.first++; rx.first >= len(rx.queues) {
		rx.first = 0
	}
}

// room returns how many more packets of any length fit a chunk with n received packets of a number of bytes.
func (rx *receiver) room(n, bytes int) int {
	if n == 0 {
		return max(1, rx.maxBytes/rx.maxFrame)
	}
	return max(0, rx.maxBytes-bytes) / rx.maxFrame
}

// refill gives free frames to the receive rings.
func (w *worker) refill() {
	for _, q := range w.rx.filled {
		q.Refill()
	}
	w.stats.free.Store(int64(w.pool.Len()))
}
