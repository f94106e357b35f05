package memport

import (
	"math/bits"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
)

// ring is one of a card's two: of frames to receive into, or of frames to send. The worker
// gives frames, the card works them off in turn, where they lie, and the worker takes them
// back in that order: so it is a card's fill ring and its receive ring, or its transmit ring
// and its completion ring. As it has room for all that the queue may hold, nobody ever waits
// for room.
//
//	taken          done           given        taken + size
//	  | worker takes |  card works  | worker gives |
//
// The indices only grow, modulo 2^32. Each side keeps copies of its own in fields that the
// other never touches, looks at the other's only when what it knows of runs out, and
// publishes its own once a burst.
type ring struct {
	frames []batch.Frame // of receiving, the card writes them
	addrs  []uint32      // of the same frames: for receiving, or to reclaim

	_      apart
	worker struct {
		given, taken uint32
		done         uint32 // of the card's, as last seen
	}
	_    apart
	card struct {
		done  uint32
		given uint32 // of the worker's, as last seen
	}
	_     apart
	given atomic.Uint32 // by the worker
	_     apart
	done  atomic.Uint32 // by the card
	_     apart
}

// newRing has room for at least so many frames.
func newRing(frames int) ring {
	size := 1 << bits.Len(uint(frames-1))
	return ring{frames: make([]batch.Frame, size), addrs: make([]uint32, size)}
}

// apart keeps what two cores write from sharing a cache line, or one of the pairs of lines
// that processors fetch together.
type apart [128]byte

// held is how many frames the queue has been given and not been taken back. The worker calls it.
func (r *ring) held() int { return int(r.worker.given - r.worker.taken) }

// room returns the next up to n places that the worker may write to, in a row.
func (r *ring) room(n int) ([]batch.Frame, []uint32) {
	return r.at(r.worker.given, min(n, len(r.addrs)-r.held()))
}

// give has n of them wait for the card, once they are published.
func (r *ring) give(n int) { r.worker.given += uint32(n) }

func (r *ring) publish() { r.given.Store(r.worker.given) }

// ready returns up to n frames that the card has done, in a row.
func (r *ring) ready(n int) ([]batch.Frame, []uint32) {
	if int(r.worker.done-r.worker.taken) < n {
		r.worker.done = r.done.Load()
	}
	return r.at(r.worker.taken, min(n, int(r.worker.done-r.worker.taken)))
}

// take takes n of them back.
func (r *ring) take(n int) { r.worker.taken += uint32(n) }

// waiting returns up to n frames that wait for the card, in a row.
func (r *ring) waiting(n int) ([]batch.Frame, []uint32) {
	if int(r.card.given-r.card.done) < n {
		r.card.given = r.given.Load()
	}
	return r.at(r.card.done, min(n, int(r.card.given-r.card.done)))
}

// finish publishes that the card has done n of them.
func (r *ring) finish(n int) {
	r.card.done += uint32(n)
	r.done.Store(r.card.done)
}

// at returns n places from an index on, or fewer where the ring's end comes first.
func (r *ring) at(index uint32, n int) ([]batch.Frame, []uint32) {
	first := int(index) & (len(r.addrs) - 1)
	end := min(first+n, len(r.addrs))
	return r.frames[first:end], r.addrs[first:end]
}

// restart has an empty ring begin again at its beginning, where its worker is its card: its
// first lines are in caches.
func (r *ring) restart() { r.worker.given, r.worker.taken, r.worker.done = 0, 0, 0 }
