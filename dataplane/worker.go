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
	cpu, priority int

	fib    *fib.FIB
	reader *fib.Reader
	mem    []byte
	frames int64 // in mem, large ones not counted
	pool   *umem.Pool
	engine Engine

	datagrams Datagrams // the engine, of a gateway; nil: it has none for them
	largest   int       // packet that the worker's frames hold, in bytes

	rx     []Queue  // every queue that the worker serves
	tx     []egress // by port
	pollFD []unix.PollFd

	room       int // of chunks
	maxPackets int
	quota      int // of a chunk that one queue fills before the next has its turn
	turn       int // which queue fills the next chunk first
	maxDelay   time.Duration
	spin       time.Duration // how long it polls empty rings before it sleeps

	free     []*batch.Chunk
	inFlight fifo
	hold     hold
	errands  errands
	withheld []uint32 // addresses in frames that a failed engine may still write to

	local     Local // nil: there is none
	takes     bool  // from local, as one worker does
	tookLocal time.Duration

	counters []portCounters // by port
	received []tally        // by port, of the chunk being filled
	drops    dropTally
	stats    workerStats

	taps   atomic.Pointer[tapped] // nil: nobody looks
	tapped *tapped                // the same, as of this turn

	call  atomic.Pointer[call] // nil: it is not called
	asked atomic.Bool          // to show progress, since its last turn
	stop  atomic.Bool
	done  chan struct{}
}

// egress collects the packets of a chunk that leave by one port.
type egress struct {
	queue  Queue // the first of the worker's queues on the port
	frames []batch.Frame
	n      int
}

// run is the worker's life until it is told to stop.
func (w *worker) run() {
	w.refill()
	var lastBusy time.Duration
	for !w.stop.Load() {
		w.answer()
		now := batch.Clock()
		busy := w.receive(now)
		busy = w.complete() || busy
		pending := w.reclaim()
		w.refill()
		if busy {
			lastBusy = now
			continue
		}
		if now-lastBusy >= w.spin && w.inFlight.n == 0 {
			w.sleep(pending)
		}
		w.stats.idle.Add(int64(batch.Clock() - now))
	}
	w.finish()
}

// receive fills a chunk with what the rings hold, submits it and reports whether
// there was anything.
func (w *worker) receive(now time.Duration) bool {
	w.tapped = w.taps.Load()
	if len(w.free) == 0 {
		return false
	}
	c := w.free[len(w.free)-1]
	c.N, c.Retried, c.Received = 0, 0, now
	w.expire(now)
	if g := w.fib.Generation(); w.hold.due(g, now) {
		w.hold.retry(c, g, now, w.giveUp)
		w.drops.flush(w.counters)
	}
	if w.takes {
		w.takeLocal(now)
	}
	w.errands.submit(c, max(c.N, w.maxPackets))
	w.fill(c)
	if c.N == 0 {
		return false
	}
	w.free = w.free[:len(w.free)-1]
	w.submit(c)
	return true
}

// fill adds received packets to a chunk until it is sealed: when it is full, when
// every ring has run dry, or when its oldest packet has waited for maxDelay.
func (w *worker) fill(c *batch.Chunk) {
	full := max(c.N, w.maxPackets) // more packets may have waited than that is now
	for {
		before := c.N
		for i := range w.rx {
			turn := (w.turn + i) % len(w.rx)
			n := w.rx[turn].Receive(c.In[c.N:min(c.N+w.quota, full)])
			w.count(c.In[c.N : c.N+n])
			if w.tapped != nil {
				w.tapReceived(c, c.N, n, turn)
			}
			c.N += n
		}
		if c.N == before || c.N == full || batch.Clock()-c.Received >= w.maxDelay {
			break
		}
	}
	for p := range w.received {
		w.received[p].flush(&w.counters[p].rxPackets, &w.counters[p].rxBytes)
	}
	w.turn = (w.turn + 1) % len(w.rx)
}

// submit gives a sealed chunk to the engine.
func (w *worker) submit(c *batch.Chunk) {
	clear(c.Out[:c.N]) // of what was decided on other packets
	c.Epoch = w.reader.Now()
	if w.inFlight.n == 0 {
		w.reader.Hold(c.Epoch)
	}
	w.inFlight.push(c)
	c.Submitted = batch.Clock()
	w.engine.Submit(c)
}

// count adds received frames, all of one port, to its tally.
func (w *worker) count(frames []batch.Frame) {
	if len(frames) > 0 {
		w.received[frames[0].Port].add(frames)
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
	for i := range done {
		c := w.inFlight.pop()
		if w.inFlight.n > 0 {
			w.reader.Hold(w.inFlight.at(0).Epoch)
		} else {
			w.reader.Release()
		}
		c.Ordered = batch.Clock()
		if w.tapped != nil {
			w.tapDecided(c)
		}
		w.sort(c)
		w.transmit()
		w.stats.held.Store(int64(w.hold.n)) // first, so that who sees the drops sees what is left
		w.drops.flush(w.counters)
		c.Sent = batch.Clock()
		if w.tapped != nil {
			w.tapDone(c)
		}
		w.stats.record(c)
		w.free = append(w.free, c)
		if i+1 < done {
			w.reclaim() // a transmit ring may not hold several chunks
		}
	}
	return done > 0
}

// sort takes the frames of a finished chunk apart by verdict: to the egress
// lists, to the hold, or back to the pool. What an engine cannot have meant, a
// port that does not exist, is dropped as unprocessed.
func (w *worker) sort(c *batch.Chunk) {
	in, out := c.In[:c.N], c.Out[:c.N]
	for i, r := range out {
		switch port := int(r.Verdict.Port()); {
		case r.Verdict.Action() == batch.ActionForward && port < len(w.tx):
			e := &w.tx[port]
			e.frames[e.n] = batch.Frame{Addr: r.Addr, Len: r.Len, Port: in[i].Port}
			e.n++
		case r.Verdict.Action() == batch.ActionHold:
			if i < c.Retried {
				break
			}
			if f, full := w.hold.add(w.mem, in[i], r.Addr, c.Done); full {
				w.drop(f, batch.HoldFull)
			}
		case r.Verdict == early && (i < c.Retried || w.hold.addEarly(in[i], c.Done)):
		case r.Verdict == batch.Lost:
			w.withhold(in[i])
		default:
			w.refuse(in[i], r, c.Done)
		}
	}
	if c.Retried > 0 {
		w.hold.retried(w.mem, c)
	}
}

// drop counts a frame under its ingress port and gives it back to the pool. What the
// router made itself was not received, and is not missed.
func (w *worker) drop(f batch.Frame, reason batch.Reason) {
	if f.Port&batch.Own != 0 {
		w.stats.made.Add(-1)
	} else {
		w.lose(f, reason)
	}
	w.pool.Put(f.Addr)
}

// lose counts a frame under its ingress port.
func (w *worker) lose(f batch.Frame, reason batch.Reason) {
	w.drops.add(f.Ingress(), reason)
	if w.tapped != nil {
		w.tapDropped(f, reason)
	}
}

// transmit hands every port its list.
func (w *worker) transmit() {
	for p := range w.tx {
		e := &w.tx[p]
		if e.n == 0 {
			continue
		}
		n := e.queue.Transmit(e.frames[:e.n])
		if w.tapped != nil {
			w.tapSent(uint16(p), e.frames[:n])
		}
		var sent tally
		sent.add(e.frames[:n])
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
	w.release()
	w.stats.pending.Store(int64(pending))
	w.stats.flying.Store(int64(w.inFlight.n))
	return pending
}

// refill gives free frames to the receive rings.
func (w *worker) refill() {
	for _, q := range w.rx {
		q.Refill()
	}
	w.stats.free.Store(int64(w.pool.Len()))
}

// sleep waits until a frame arrives, but not long while anything else is due:
// packets to retry, frames still being sent. A frame that was sent is not missed
// for a while, and a short timeout costs more than a long one: it has the timer
// programmed.
func (w *worker) sleep(pending int) {
	timeout := 50 // milliseconds: how late a stop may be noticed
	switch {
	case w.hold.n > 0:
		timeout = 1
	case pending > 0:
		timeout = 12
	}
	poll(w.pollFD, timeout)
	if w.takes { // the last one is the host's; without its interface it would not let us sleep
		if p := &w.pollFD[len(w.pollFD)-1]; p.Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
			p.Fd = -1
		}
	}
}

// A worker that was told to stop goes on with what it has received for stopDelay,
// and waits as long again for an engine that does not answer.
const stopDelay = 500 * time.Millisecond

// finish is the end of a worker's life: it works until there is nothing more to
// receive, to decide or to send, or the time for it is up. What is left then is
// dropped and counted.
func (w *worker) finish() {
	start := batch.Clock()
	for {
		now := batch.Clock()
		late := now-start >= stopDelay
		busy := !late && w.receive(now)
		busy = w.complete() || busy
		pending := w.reclaim()
		w.refill()
		if w.inFlight.n > 0 && now-start < 2*stopDelay {
			continue
		}
		if late || !busy && pending == 0 {
			break
		}
	}
	for w.inFlight.n > 0 {
		for _, f := range w.inFlight.at(0).In[:w.inFlight.at(0).N] {
			w.drop(f, batch.Stopping)
		}
		w.hold.forget(w.inFlight.pop().Retried)
	}
	for w.hold.n > 0 {
		w.drop(w.hold.pop().frame, batch.Stopping)
	}
	for _, f := range w.errands.queue[:w.errands.n] {
		w.drop(f, batch.Stopping)
	}
	w.errands.n = 0
	w.expire(1<<63 - 1)
	w.drops.flush(w.counters)
	w.stats.held.Store(0)
}
