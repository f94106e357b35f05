package afxdp

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ring is one AF_XDP ring: a power of two of descriptors and two indices that grow and wrap at 2^32.
// It is struct xsk_ring_prod and xsk_ring_cons of libxdp.
//
//	ring              producer                consumer
//	fill, TX          user space (prodRing)   kernel
//	completion, RX    kernel                  user space (consRing)
//
// Each side stores its own index, with release order, after it has written or read the descriptors,
// and loads the other side's index with acquire order. The race detector does not see the kernel:
// these atomics are the only synchronization. Differences of indices are right across the wrap, by
// unsigned arithmetic. A ring belongs to one goroutine; any may call level.
type ring[E any] struct {
	producer *uint32 // shared: descriptors written; stored by the producer
	consumer *uint32 // shared: descriptors read; stored by the consumer
	flags    *uint32 // shared: XDP_RING_NEED_WAKEUP; stored by the kernel
	descs    []E     // shared: written by the producer
}

func (r *ring[E]) desc(i uint32) *E { return &r.descs[i&uint32(len(r.descs)-1)] }

// needsWakeup reports whether the kernel waits for a system call before it processes the ring.
// Descriptors must be submitted before.
func (r *ring[E]) needsWakeup() bool {
	return atomic.LoadUint32(r.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

// level returns the number of descriptors in the ring.
func (r *ring[E]) level() uint32 {
	// In this order: the producer index only grows after the consumer index was loaded.
	consumer := atomic.LoadUint32(r.consumer)
	return min(atomic.LoadUint32(r.producer)-consumer, uint32(len(r.descs)))
}

// prodRing is a ring that user space produces: fill or TX. The cached fields are private to it.
type prodRing[E any] struct {
	ring[E]
	cachedProd uint32 // value of *producer
	cachedCons uint32 // latest load of *consumer, plus the ring size: the end of the free descriptors
}

func newProdRing[E any](r ring[E]) prodRing[E] {
	return prodRing[E]{ring: r, cachedProd: atomic.LoadUint32(r.producer), cachedCons: atomic.LoadUint32(r.consumer) + uint32(len(r.descs))}
}

// reserve returns the number of free descriptors, up to n. It loads the consumer index only when the
// cached one shows fewer. Unlike xsk_ring_prod__reserve, it does not advance the ring.
func (r *prodRing[E]) reserve(n uint32) uint32 {
	if r.cachedCons-r.cachedProd < n {
		r.cachedCons = atomic.LoadUint32(r.consumer) + uint32(len(r.descs))
	}
	return min(r.cachedCons-r.cachedProd, n)
}

// set writes reserved descriptor i.
func (r *prodRing[E]) set(i uint32, e E) { *r.desc(r.cachedProd + i) = e }

// submit publishes the first n reserved descriptors to the kernel.
func (r *prodRing[E]) submit(n uint32) {
	r.cachedProd += n
	atomic.StoreUint32(r.producer, r.cachedProd)
}

// unconsumed calls f with each descriptor that the kernel has not consumed.
func (r *prodRing[E]) unconsumed(f func(E)) {
	for i := r.cachedProd - r.level(); i != r.cachedProd; i++ {
		f(*r.desc(i))
	}
}

// consRing is a ring that user space consumes: completion or RX. The cached fields are private to it.
type consRing[E any] struct {
	ring[E]
	cachedProd uint32 // latest load of *producer: the end of the available descriptors
	cachedCons uint32 // value of *consumer
}

func newConsRing[E any](r ring[E]) consRing[E] {
	return consRing[E]{ring: r, cachedProd: atomic.LoadUint32(r.producer), cachedCons: atomic.LoadUint32(r.consumer)}
}

// peek returns the number of available descriptors, up to n. It loads the producer index only when
// the cached one shows fewer. Unlike xsk_ring_cons__peek, it does not advance the ring.
func (r *consRing[E]) peek(n uint32) uint32 {
	if r.cachedProd-r.cachedCons < n {
		r.cachedProd = atomic.LoadUint32(r.producer)
	}
	return min(r.cachedProd-r.cachedCons, n)
}

// at returns available descriptor i.
func (r *consRing[E]) at(i uint32) E { return *r.desc(r.cachedCons + i) }

// release gives the first n available descriptors back to the kernel.
func (r *consRing[E]) release(n uint32) {
	r.cachedCons += n
	atomic.StoreUint32(r.consumer, r.cachedCons)
}
