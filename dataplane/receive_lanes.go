package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/lane"
)

// With several lanes, received packets are sorted into the queues of their lanes first, and then each lane
// submits a chunk, the first lane first. The receive rings are emptied whether or not the engine keeps up,
// so that no packet waits in a ring behind packets of another lane.

// sorter finds the lanes of packets. While the headers of a received burst are on their way to the cache, the burst before it is
// sorted.
type sorter struct {
	*lane.Classifier
	bursts [2][sortBurst]batch.Frame
	lanes  [sortBurst]uint8
}

const (
	sortBurst = 64
	// pollBudget is the number of packets that an iteration polls at least, divided among the queues: a full ring
	// is emptied faster than a core can fill it.
	pollBudget = 1024
)

// receiveLanes receives packets, submits up to one chunk of each lane, and reports whether it did either.
// In the first lane's chunk, packets of the pending queue come first. Those of the slow path are sorted like
// received ones, before them.
func (w *worker) receiveLanes(now time.Duration) bool {
	w.capture = w.captures.Load()
	w.expireFragments(now)
	w.receiveFromLinux(now, slowPathSize)
	slow := w.slow.n
	w.slow.n = 0
	for i := 0; i < slow; i += sortBurst {
		w.sort(w.slow.queue[i:min(i+sortBurst, slow)], now)
	}
	busy := w.pollRings(now) || slow > 0
	w.drops.flush(w.counters)
	for i := range w.lanes {
		busy = w.submitFrom(i, now) || busy
	}
	return busy
}

// pollRings receives packets from all rings, round-robin, and reports whether there were any.
func (w *worker) pollRings(now time.Duration) (received bool) {
	rx := &w.rx
	quota := max(rx.quota, pollBudget/max(len(rx.queues), 1), 1)
	var last []batch.Frame // the burst before, which is to be sorted
	into := 0              // index in sorter.bursts of the next one
	for i := range rx.queues {
		queue := (rx.first + i) % len(rx.queues)
		for left := quota; left > 0; {
			want := min(left, sortBurst)
			n := rx.queues[queue].Receive(w.sorter.bursts[into][:want])
			if n == 0 {
				break
			}
			received = true
			burst := w.sorter.bursts[into][:n]
			into ^= 1
			port := burst[0].Origin.Port()
			kept, cached := w.countAndUntag(port, burst)
			if burst = burst[:kept]; !cached {
				w.sorter.Prefetch(w.mem, burst)
			}
			if w.capture != nil {
				w.captureReceived(burst, now, queue, nil, 0)
			}
			w.sort(last, now)
			last = burst
			if left -= n; n < want {
				break
			}
		}
	}
	w.sort(last, now)
	w.flushReceived()
	return received
}

// sort adds up to sortBurst packets to the queues of their lanes, and drops those that do not fit.
func (w *worker) sort(burst []batch.Frame, now time.Duration) {
	lanes := w.sorter.lanes[:len(burst)]
	w.sorter.Classify(w.mem, burst, lanes)
	for len(burst) > 0 {
		n := 1 // packets of one lane in a row
		for n < len(burst) && lanes[n] == lanes[0] {
			n++
		}
		for _, f := range burst[w.lanes[lanes[0]].waiting.push(burst[:n], now):n] {
			w.drop(f, batch.LaneFull)
		}
		burst, lanes = burst[n:], lanes[n:]
	}
}

// submitFrom submits a chunk of a lane's waiting packets, and reports whether it did.
func (w *worker) submitFrom(lane int, now time.Duration) bool {
	l := &w.lanes[lane]
	changes := w.fib.Changes()
	retry := lane == 0 && w.pending.due(changes, now)
	if l.waiting.n == 0 && !retry {
		return false
	}
	c := w.chunkFor(lane)
	if c == nil || !w.mayAdd(lane) || !w.ready(lane) {
		return false
	}
	c.N, c.Retried, c.Received, c.Full, c.Cached = 0, 0, now, false, false
	if retry {
		w.pending.retry(c, changes, now, w.handleExpired)
		w.stats.waiting.Store(int64(w.pending.n)) // before the drops, as in finish
		w.drops.flush(w.counters)
	}
	limited := l.waiting.take(c, w.rx.limit(c), l.pace.limit(w.rx.maxBytes))
	if c.N == 0 {
		return false
	}
	if w.capture != nil {
		w.assignTraces(c)
	}
	w.submit(lane, c)
	if l.pace.budget > 0 {
		l.pace.record(batch.Clock()-c.Submitted, limited)
	}
	return true
}
