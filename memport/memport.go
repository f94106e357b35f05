// Package memport provides ports in memory, the equivalent of DPDK's net_null and net_ring: they
// replay recorded frames and collect transmitted ones, with the queues, frames and rings of a NIC.
// Benchmarks and tests run a whole router on them.
//
// A frame circulates as with AF_XDP: Refill moves it from the pool to the queue, Receive writes a packet
// to it as a NIC's DMA would, Transmit gives it to a queue, which reads it as a NIC would to put it on
// the wire, and Reclaim puts it back into the pool. Writing and reading packets is the cost of the port,
// not of the router. The worker's core pays it, unless another core emulates the NIC (StartNIC).
package memport

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// Queue is a queue of a memory port. See dataplane.Queue for its methods.
type Queue struct {
	rx, tx ring

	mem    []byte
	pool   *umem.Pool // the worker's
	port   uint16
	hasNIC bool // another core emulates the NIC

	prepared []batch.Frame // to receive, with their packets (Prepare); then none are of the pool
	refilled int           // of these, posted

	_ padding // the emulated NIC accesses the fields below

	recording *Recording // frames to receive, repeated
	next      int
	left      int // frames to receive; negative for no end
	paused    atomic.Bool
	arrived   atomic.Uint64 // frames received so far

	offered  *Load // that the queue receives, or nil
	measured *Load // that the queue transmits, or nil

	sum     uint64 // of the words read from transmitted frames
	unread  bool   // transmitted frames are not read
	collect func(frame []byte)
}

// ringSize is the number of frames to receive into, as in a NIC's ring. A transmit ring has room for
// all frames, so nothing is dropped for lack of room.
const ringSize = 2048

// burst is the number of frames that are prefetched together, so that cache misses overlap.
const burst = 64

// New returns a queue of a port in a worker's UMEM. It receives nothing before Play.
func New(port uint16, mem *umem.Memory, pool *umem.Pool) *Queue {
	return &Queue{
		rx: newRing(ringSize), tx: newRing(mem.Frames() + mem.Large()),
		port: port, mem: mem.Bytes(), pool: pool,
	}
}

// Play makes the queue receive frames, repeated up to count, or without end if count is negative. Call
// it before the router starts.
func (q *Queue) Play(frames [][]byte, count int) { q.PlayRecording(Record(frames), 0, count) }

// PlayRecording is Play for a recording, beginning with frame first.
func (q *Queue) PlayRecording(r *Recording, first, count int) {
	q.recording, q.next, q.left = r, first, count
}

// Collect passes every transmitted frame to f, which must not keep the slice. Call it before the router
// starts. The emulated NIC calls f, or the worker without one.
func (q *Queue) Collect(f func(frame []byte)) { q.collect = f }

// LeaveUnread makes transmission free: an emulated NIC completes frames without reading them, unless Collect asks for them.
// Call it before the router starts.
func (q *Queue) LeaveUnread() { q.unread = true }

// Arrived returns the number of frames received so far. Any goroutine may call it.
func (q *Queue) Arrived() uint64 { return q.arrived.Load() }

// Pause stops reception for good. Any goroutine may call it.
func (q *Queue) Pause() { q.paused.Store(true) }

// Held returns the number of frames in the queue, with prepared ones. The router must have stopped.
func (q *Queue) Held() int { return q.rx.held() + q.tx.held() + len(q.prepared) - q.refilled }

func (q *Queue) Refill() {
	if q.prepared != nil {
		q.refillPrepared()
		return
	}
	block := q.pool.TakeBlock(min(ringSize-q.rx.held(), q.pool.Len()))
	if len(block) == 0 {
		return
	}
	for len(block) > 0 {
		_, addrs := q.rx.reserve(len(block))
		n := copy(addrs, block)
		q.rx.post(n)
		block = block[n:]
	}
	q.rx.publish()
}

func (q *Queue) Receive(dst []batch.Frame) (n int) {
	if !q.hasNIC {
		return q.receive(dst)
	}
	for n < len(dst) {
		frames, _ := q.rx.peekDone(len(dst) - n)
		if len(frames) == 0 {
			break
		}
		n += copy(dst[n:], frames)
		q.rx.release(len(frames))
	}
	return n
}

// receive is Receive without an emulated NIC. It uses the frames posted last first, whose bytes are in
// the worker's caches.
func (q *Queue) receive(dst []batch.Frame) int {
	held := q.rx.held()
	n := q.due(min(len(dst), held))
	q.play(dst[:n], q.rx.addrs[held-n:held])
	q.rx.worker.posted -= uint32(n) // the ring is a stack: nothing is reclaimed
	return n
}

func (q *Queue) Transmit(src []batch.Frame) int {
	for rest := src; len(rest) > 0; {
		frames, addrs := q.tx.reserve(len(rest))
		for i, f := range rest[:len(addrs)] {
			addrs[i] = f.Addr
		}
		if q.hasNIC {
			copy(frames, rest)
		} else {
			q.send(rest[:len(frames)])
		}
		q.tx.post(len(frames))
		rest = rest[len(frames):]
	}
	if q.hasNIC {
		q.tx.publish()
	} else {
		q.tx.worker.done = q.tx.worker.posted
	}
	return len(src)
}

func (q *Queue) Reclaim() (transmitting int) {
	for {
		_, addrs := q.tx.peekDone(q.tx.held())
		if len(addrs) == 0 {
			break
		}
		q.pool.PutBlock(addrs)
		q.tx.release(len(addrs))
	}
	if !q.hasNIC {
		q.tx.reset()
	}
	return q.tx.held()
}

// FD returns -1: poll(2) cannot wait for a memory port.
func (q *Queue) FD() int { return -1 }
