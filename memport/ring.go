package memport

import (
	"math/bits"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
)

// ring is a ring of frames to receive into, or of frames to transmit. The worker posts frames, the NIC
// completes them in place and in order, and the worker releases them. So it is a NIC's fill and receive
// ring, or transmit and completion ring. It has room for all frames that the queue can hold.
//
//	released        done         posted      released + size
//	   | worker reads | NIC works  | worker posts |
//
// The indices grow modulo 2^32. Each side caches both indices in fields that the other side does not
// access, loads the other side's index when the cached one runs out, and stores its own once per burst.
type ring struct {
	frames []batch.Frame // descriptors; of received frames, written by the NIC
	addrs  []uint32      // addresses of the same frames, to receive into or to reclaim

	_      padding
	worker struct { // accessed by the worker
		posted, released uint32
		done             uint32 // latest load of done
	}
	_   padding
	nic struct { // accessed by the NIC
		done   uint32
		posted uint32 // latest load of posted
	}
	_      padding
	posted atomic.Uint32 // stored by the worker
	_      padding
	done   atomic.Uint32 // stored by the NIC
	_      padding
}

// newRing returns a ring with room for a number of frames.
func newRing(frames int) ring {
	size := 1 << bits.Len(uint(frames-1))
	return ring{frames: mapped[batch.Frame](size), addrs: mapped[uint32](size)}
}

// mapped returns a slice of n elements whose pages are mapped. With prepared frames, a ring has room for all of them, and workers and NICs
// would spend up to half of their time in page faults, which no router with a NIC has.
func mapped[T any](n int) []T {
	s := make([]T, n)
	clear(s) // writes to them
	return s
}

// padding separates cache lines, and the pairs of lines that processors prefetch, of two cores.
type padding [128]byte

// held returns the number of frames in the ring. The worker calls it.
func (r *ring) held() int { return int(r.worker.posted - r.worker.released) }

// reserve returns up to n contiguous free slots.
func (r *ring) reserve(n int) ([]batch.Frame, []uint32) {
	return r.slots(r.worker.posted, min(n, len(r.addrs)-r.held()))
}

// post adds n reserved slots to the posted ones. The NIC sees them after publish.
func (r *ring) post(n int) { r.worker.posted += uint32(n) }

func (r *ring) publish() { r.posted.Store(r.worker.posted) }

// peekDone returns up to n contiguous completed slots.
func (r *ring) peekDone(n int) ([]batch.Frame, []uint32) {
	if int(r.worker.done-r.worker.released) < n {
		r.worker.done = r.done.Load()
	}
	return r.slots(r.worker.released, min(n, int(r.worker.done-r.worker.released)))
}

// release frees n completed slots.
func (r *ring) release(n int) { r.worker.released += uint32(n) }

// peekPosted returns up to n contiguous posted slots. The NIC calls it.
func (r *ring) peekPosted(n int) ([]batch.Frame, []uint32) {
	if int(r.nic.posted-r.nic.done) < n {
		r.nic.posted = r.posted.Load()
	}
	return r.slots(r.nic.done, min(n, int(r.nic.posted-r.nic.done)))
}

// complete publishes n posted slots as completed. The NIC calls it.
func (r *ring) complete(n int) {
	r.nic.done += uint32(n)
	r.done.Store(r.nic.done)
}

// slots returns n slots from an index on, or fewer at the end of the ring.
func (r *ring) slots(index uint32, n int) ([]batch.Frame, []uint32) {
	first := int(index) & (len(r.addrs) - 1)
	end := min(first+n, len(r.addrs))
	return r.frames[first:end], r.addrs[first:end]
}

// reset moves an empty ring back to its first slots, which are in the worker's caches. It must not have
// an emulated NIC.
func (r *ring) reset() { r.worker.posted, r.worker.released, r.worker.done = 0, 0, 0 }
