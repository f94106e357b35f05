package dataplane

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/umem"
)

// A worker moves packets from the receive rings of its queues to the transmit
// rings of its queues, alone: it is one goroutine on one locked thread on one
// core, and shares neither frames nor chunks nor counters with another.
//
// Each turn of its loop takes three steps, all by the burst:
//
//	receive    fill a free chunk from the receive rings; submit it to the engine
//	complete   take finished chunks, in the order of submission; sort their
//	           packets by verdict; hand each port what leaves by it
//	recycle    collect the frames that have been sent; give the receive rings
//	           free ones
//
// Order: chunks are completed in the order of their submission, packets of a
// chunk in the order of their arrival, so packets that share an ingress and an
// egress queue, and with them flows, leave in the order in which they came. The
// exception are packets that waited for a neighbour (see hold).
type worker struct {
	cpu    int
	fib    *fib.FIB
	reader *fib.Reader
	mem    []byte
	pool   *umem.Pool
	engine Engine

	rx     []Queue  // every queue that the worker serves
	tx     []egress // by port
	pollFD []unix.PollFd

	maxPackets int
	quota      int // of a chunk that one queue fills before the next has its turn
	turn       int // which queue fills the next chunk first
	maxDelay   time.Duration
	spin       time.Duration // how long it polls empty rings before it sleeps

	free     []*batch.Chunk
	inFlight fifo
	hold     hold

	counters []portCounters // by port
	received []tally        // by port, of the chunk being filled
	drops    dropTally
	stats    workerStats

	stop     atomic.Bool
	stopping time.Duration // when stop was first seen
	done     chan struct{}
}

// stopDelay is how long a stopping worker goes on with what has been received.
const stopDelay = 500 * time.Millisecond

// egress collects the packets of a chunk that leave by one port.
type egress struct {
	queue  Queue // the first of the worker's queues on the port
	frames []batch.Frame
	n      int
}

// run is the worker's life. It returns when stop is set and its queues are empty.
func (w *worker) run() {
	w.refill()
	var idleSince time.Duration
	for {
		now := batch.Clock()
		busy := w.receive(now)
		busy = w.complete() || busy
		pending := w.reclaim()
		w.refill()
		switch {
		case w.stop.Load():
			if w.stopped(now, busy, pending) {
				return
			}
		case busy:
			idleSince = 0
		case idleSince == 0:
			idleSince = now
		case now-idleSince >= w.spin && w.inFlight.n == 0:
			w.sleep(pending)
			idleSince = 0
		}
	}
}

// receive fills a chunk with what the rings hold, submits it and reports whether
// there was anything. The chunk is sealed when it is full, when every ring has
// run dry, or when its oldest packet has waited for maxDelay.
func (w *worker) receive(now time.Duration) bool {
	if len(w.free) == 0 {
		return false
	}
	c := w.free[len(w.free)-1]
	c.N, c.Retried, c.Received = 0, 0, now
	if g := w.fib.Generation(); w.hold.due(g, now) {
		w.hold.retry(c, g, now, w.drop)
		w.drops.flush(w.counters)
	}
	for {
		before := c.N
		for i := range w.rx {
			q := w.rx[(w.turn+i)%len(w.rx)]
			n := q.Receive(c.In[c.N:min(c.N+w.quota, w.maxPackets)])
			w.count(c.In[c.N : c.N+n])
			c.N += n
		}
		if c.N == before || c.N == w.maxPackets || batch.Clock()-now >= w.maxDelay {
			break
		}
	}
	if c.N == 0 {
		return false
	}
	w.turn = (w.turn + 1) % len(w.rx)
	for p := range w.received {
		w.received[p].flush(&w.counters[p].rxPackets, &w.counters[p].rxBytes)
	}
	w.free = w.free[:len(w.free)-1]
	if w.inFlight.n == 0 {
		w.reader.Begin()
	}
	w.inFlight.push(c)
	c.Submitted = batch.Clock()
	w.engine.Submit(c)
	return true
}

// count adds received frames to the tallies of their ports.
func (w *worker) count(frames []batch.Frame) {
	for i := range frames {
		t := &w.received[frames[i].Port]
		t.packets++
		t.bytes += uint64(frames[i].Len)
	}
}

// complete sends the packets of all finished chunks on their way, oldest chunk
// first, and reports whether there was any.
func (w *worker) complete() bool {
	if w.inFlight.n == 0 {
		return false
	}
	done, now := 0, batch.Clock()
	for done < w.inFlight.n && w.engine.Done(w.inFlight.at(done)) {
		w.inFlight.at(done).Done = now
		done++
	}
	for range done {
		c := w.inFlight.pop()
		if w.inFlight.n == 0 {
			w.reader.End()
		}
		c.Ordered = batch.Clock()
		w.sort(c)
		w.transmit()
		w.drops.flush(w.counters)
		c.Sent = batch.Clock()
		w.stats.record(c)
		w.stats.held.Store(int64(w.hold.n))
		w.free = append(w.free, c)
	}
	return done > 0
}

// sort takes the frames of a finished chunk apart by verdict: to the egress
// lists, to the hold, or back to the pool.
func (w *worker) sort(c *batch.Chunk) {
	in, out := c.In[:c.N], c.Out[:c.N]
	for i, r := range out {
		switch r.Verdict.Action() {
		case batch.ActionForward:
			e := &w.tx[r.Verdict.Port()]
			e.frames[e.n] = batch.Frame{Addr: r.Addr, Len: r.Len, Port: in[i].Port}
			e.n++
		case batch.ActionHold:
			if i >= c.Retried && !w.hold.add(w.mem, in[i], r.Addr, c.Done) {
				w.drop(in[i], batch.HoldFull)
			}
		default:
			w.drop(in[i], r.Verdict.Reason())
		}
	}
	if c.Retried > 0 {
		w.hold.putBack(c)
	}
}

// drop counts a frame under its ingress port and gives it back to the pool.
func (w *worker) drop(f batch.Frame, reason batch.Reason) {
	w.drops.add(f.Port, reason)
	w.pool.Put(f.Addr)
}

// transmit hands every port its list.
func (w *worker) transmit() {
	for p := range w.tx {
		e := &w.tx[p]
		if e.n == 0 {
			continue
		}
		n := e.queue.Transmit(e.frames[:e.n])
		var sent tally
		for i := range e.frames[:n] {
			sent.packets++
			sent.bytes += uint64(e.frames[i].Len)
		}
		sent.flush(&w.counters[p].txPackets, &w.counters[p].txBytes)
		for _, f := range e.frames[n:e.n] {
			w.drop(f, batch.TxFull)
		}
		e.n = 0
	}
}

// reclaim collects the frames that have been sent and returns how many have not.
func (w *worker) reclaim() (pending int) {
	for p := range w.tx {
		pending += w.tx[p].queue.Reclaim()
	}
	w.stats.pending.Store(int64(pending))
	return pending
}

// refill gives free frames to the receive rings.
func (w *worker) refill() {
	for _, q := range w.rx {
		q.Refill()
	}
}

// sleep waits until a frame arrives, but not long while anything else is due:
// packets to retry, frames still being sent.
func (w *worker) sleep(pending int) {
	timeout := 50 // milliseconds: how late a stop may be noticed
	if pending > 0 || w.hold.n > 0 {
		timeout = 1
	}
	// An error means a signal or a socket that is gone; the loop finds out which.
	_, _ = unix.Poll(w.pollFD, timeout)
}

// stopped reports whether a worker that was told to stop is done: nothing to
// receive, nothing with the engine, nothing left to send; or no time left for
// more. Packets in the hold are given up.
func (w *worker) stopped(now time.Duration, busy bool, pending int) bool {
	if w.stopping == 0 {
		w.stopping = now
	}
	if late := now-w.stopping >= stopDelay; !late && (busy || pending > 0) || w.inFlight.n > 0 {
		return false
	}
	for w.hold.n > 0 {
		w.drop(w.hold.take().frame, batch.Stopping)
	}
	w.drops.flush(w.counters)
	w.stats.held.Store(0)
	return true
}
