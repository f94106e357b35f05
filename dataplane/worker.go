package dataplane

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/umem"
)

// worker moves packets from the receive rings to the transmit rings of its queues. It is one
// goroutine on one locked thread, and shares no frame, chunk or counter with another worker.
//
// An iteration of its loop has three steps, each on bursts:
//
//	receive   fill a free chunk from the receive rings and submit it to the engine (receive.go);
//	          with several lanes, one chunk of each                    (receive_lanes.go)
//	complete  take finished chunks of each lane in the order of submission, sort their packets
//	          by verdict, and transmit each port's list                (complete.go, transmit.go)
//	recycle   reclaim transmitted frames, refill the receive rings      (transmit.go, receive.go)
//
// A packet that leaves the fast path enters a later chunk: from the pending queue when its neighbor
// may be resolved (pending.go), from the slow path when the router has originated, fragmented or
// reassembled it (slowpath.go).
//
// Ownership: a frame belongs to the kernel (in a ring of a queue), the queue of a lane, a chunk, the pending
// queue, the slow path queue, the withheld frames or the pool, and to one of them at a time.
//
// Order: chunks of a lane complete in the order of submission and packets of a chunk in the order of
// arrival, so packets of a lane, and with them flows, that share an ingress and an egress queue are not
// reordered. The exception are packets in the pending queue and on the slow path.
type worker struct {
	// Fast path.
	rx          receiver
	tx          []egress     // by physical port; without queue for a number that has none
	queues      []portQueues // of physical ports, by number
	open        []uint16     // their numbers
	chunkLen    int          // packets that a chunk holds
	engine      Engine
	pressure    Backpressure // the engine, nil if it does not implement it
	lanes       []laneState
	reserved    int    // chunks of each lane that no other takes
	inFlight    int    // chunks of all lanes that the engine has
	maxInFlight int    // chunks of the last lane: see Settings
	sorter      sorter // with several lanes
	free        []*batch.Chunk
	reader      *fib.Reader
	mem         []byte // the UMEM; a frame's address is an index
	pool        *umem.Pool
	withheld    []uint32       // frames that a failed engine may still write to
	counters    []portCounters // by physical port
	drops       dropTally
	logical     logicalPorts
	capture     *captureRings // of this iteration, nil without captures

	// Slow path.
	pending pendingQueue
	slow    slowPath
	host    hostPath // to the host's addresses, from tunnels
	exit    hostPath // through Linux, to interfaces that are not ports
	fib     *fib.FIB

	linuxFirst int // 0 if the next poll of host and exit begins with host, else 1

	hostTime         hostTime
	transmitted      bool                     // packets to ports, since the last chunk
	unprepared       int                      // last results of the dispatched chunk, for which prepare has not run
	exitAnswers      func(packet []byte) bool // Config.ExitAnswers
	partialChecksums []bool                   // by port

	// Control.
	index         int // of the worker
	cpu, priority int
	thread        int           // ID, set before the worker runs
	spin          time.Duration // polling of empty rings before the worker sleeps
	pollFD        []unix.PollFd
	hostFD        []unix.PollFd // of these, those of host queues
	captures      atomic.Pointer[captureRings]
	call          atomic.Pointer[call]
	probed        atomic.Bool // set by the watchdog, cleared by every iteration
	stop          atomic.Bool
	done          chan struct{}

	stats workerStats
}

// run is the loop of the worker until Stop.
func (w *worker) run() {
	w.refill()
	w.stats.started.Store(int64(batch.Clock()))
	var lastBusy time.Duration
	for !w.stop.Load() {
		w.runCalls()
		now := batch.Clock()
		busy := w.receive(now)
		busy = w.complete() || busy
		transmitting := w.reclaim()
		w.refill()
		if busy {
			lastBusy = now
			continue
		}
		if now-lastBusy >= w.spin && w.inFlight == 0 {
			w.logical.flush()
			w.sleep(transmitting)
		}
		w.stats.idle.Add(int64(batch.Clock() - now))
	}
	w.shutDown()
}

// sleep waits for received frames. The timeout is short while packets wait for a retry or frames for
// the end of their transmission. A transmitted frame is not needed at once, and a short timeout costs
// more than a long one, because it programs the timer.
func (w *worker) sleep(transmitting int) {
	timeout := 50 // milliseconds until a stop is noticed
	switch {
	case w.pending.n > 0 || w.host.more || w.exit.more:
		timeout = 1
	case transmitting > 0:
		timeout = 12
	}
	poll(w.pollFD, timeout)
	for i := range w.hostFD { // poll(2) returns at once for a deleted interface
		if p := &w.hostFD[i]; p.Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
			p.Fd = -1
		}
	}
}

// stopDelay limits how long a stopped worker processes received packets. It waits as long again for
// the engine.
const stopDelay = 500 * time.Millisecond

// shutDown processes received packets until none is left or stopDelay has passed, and drops the rest.
func (w *worker) shutDown() {
	start := batch.Clock()
	for {
		now := batch.Clock()
		late := now-start >= stopDelay
		busy := !late && w.receive(now)
		busy = w.complete() || busy
		transmitting := w.reclaim()
		w.refill()
		if w.inFlight > 0 && now-start < 2*stopDelay {
			continue
		}
		if late || !busy && transmitting == 0 {
			break
		}
	}
	for i := range w.lanes {
		for w.lanes[i].inFlight.n > 0 {
			c := w.removeOldest(i)
			for _, f := range c.In[:c.N] {
				w.drop(f, batch.Stopping)
			}
			w.pending.cancelRetry(c.Retried)
			w.releaseOldest()
		}
	}
	for i := range w.lanes {
		for q := &w.lanes[i].waiting; q.n > 0; {
			w.drop(q.pop(), batch.Stopping)
		}
	}
	for w.pending.n > 0 {
		w.drop(w.pending.pop().frame, batch.Stopping)
	}
	for _, f := range w.slow.queue[:w.slow.n] {
		w.drop(f, batch.Stopping)
	}
	w.slow.n = 0
	w.expireFragments(1<<63 - 1)
	w.logical.flush()
	w.drops.flush(w.counters)
	w.stats.waiting.Store(0)
}
