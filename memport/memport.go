// Package memport provides ports that are memory: they play frames back and
// collect what is sent, through the same queues, frames and rings of free frames
// as a network card's. Benchmarks and tests run the whole router on them.
//
// A frame goes round as with AF_XDP: the pool gives it to the queue (Refill), the
// queue writes a packet into it as a card's DMA would (Receive), the worker sends
// it (Transmit), the queue reads it, as a card would to put it on the wire, and gives the
// frame back to the pool (Reclaim). Writing and reading are the port's own cost. The worker's
// core pays it, unless another one plays the card (StartCard).
package memport

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// Queue is one queue of a memory port.
type Queue struct {
	rx, tx ring

	mem    []byte
	pool   *umem.Pool // the worker's
	port   uint16
	carded bool // another core is the card

	_ apart // from here on the card's, whoever plays it

	tape   *Tape // frames to receive, again and again
	next   int
	left   int // how many more to play; negative: no end
	paused atomic.Bool

	sum     uint64 // of what was read
	collect func(frame []byte)
}

// ringSize is how many frames a queue has for receiving, as a card's ring would. To send it
// may have all: so nothing is ever dropped for want of room, and what there is to receive
// into limits the rest.
const ringSize = 2048

// burst is how many frames are asked for at once, for all misses of the caches to overlap:
// a card does not wait for them one by one either.
const burst = 64

// New returns the queue of a port in a worker's memory. It receives nothing
// until Play says what.
func New(port uint16, mem *umem.Memory, pool *umem.Pool) *Queue {
	return &Queue{
		rx: newRing(ringSize), tx: newRing(mem.Frames() + mem.Large()),
		port: port, mem: mem.Bytes(), pool: pool,
	}
}

// Play makes the queue receive the given frames in turn, count of them in all,
// or without end where count is negative. Set it before the router starts.
func (q *Queue) Play(frames [][]byte, count int) { q.PlayTape(Record(frames), 0, count) }

// PlayTape is Play for the frames of a tape, from one of them on.
func (q *Queue) PlayTape(t *Tape, first, count int) { q.tape, q.next, q.left = t, first, count }

// Collect has every sent frame passed to f, which must not keep the slice. Set it
// before the router starts; without it frames are only read. It is called by
// whoever plays the card.
func (q *Queue) Collect(f func(frame []byte)) { q.collect = f }

// Pause stops the playing for good. Any goroutine may call it.
func (q *Queue) Pause() { q.paused.Store(true) }

// Held is the number of frames that the queue holds, for receiving, received or sent.
// The router must have stopped.
func (q *Queue) Held() int { return q.rx.held() + q.tx.held() }

func (q *Queue) Refill() {
	block := q.pool.TakeBlock(min(ringSize-q.rx.held(), q.pool.Len()))
	if len(block) == 0 {
		return
	}
	for len(block) > 0 {
		_, addrs := q.rx.room(len(block))
		n := copy(addrs, block)
		q.rx.give(n)
		block = block[n:]
	}
	q.rx.publish()
}

func (q *Queue) Receive(dst []batch.Frame) (n int) {
	if !q.carded {
		return q.receive(dst)
	}
	for n < len(dst) {
		frames, _ := q.rx.ready(len(dst) - n)
		if len(frames) == 0 {
			break
		}
		n += copy(dst[n:], frames)
		q.rx.take(len(frames))
	}
	return n
}

// receive is Receive where the worker plays the card. The frames that were given last come
// first, as they do from the pool: their bytes are in its caches.
func (q *Queue) receive(dst []batch.Frame) int {
	held := q.rx.held()
	n := q.due(min(len(dst), held))
	q.play(dst[:n], q.rx.addrs[held-n:held])
	q.rx.worker.given -= uint32(n) // nothing was taken: so the ring is a stack
	return n
}

func (q *Queue) Transmit(src []batch.Frame) int {
	for rest := src; len(rest) > 0; {
		frames, addrs := q.tx.room(len(rest))
		for i, f := range rest[:len(addrs)] {
			addrs[i] = f.Addr
		}
		if q.carded {
			copy(frames, rest)
		} else {
			q.send(rest[:len(frames)])
		}
		q.tx.give(len(frames))
		rest = rest[len(frames):]
	}
	if q.carded {
		q.tx.publish()
	} else {
		q.tx.worker.done = q.tx.worker.given
	}
	return len(src)
}

func (q *Queue) Reclaim() (pending int) {
	for {
		_, addrs := q.tx.ready(q.tx.held())
		if len(addrs) == 0 {
			break
		}
		q.pool.PutBlock(addrs)
		q.tx.take(len(addrs))
	}
	if !q.carded {
		q.tx.restart()
	}
	return q.tx.held()
}

// FD is -1: a memory port is never waited for.
func (q *Queue) FD() int { return -1 }
