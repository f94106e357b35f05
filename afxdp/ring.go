package afxdp

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A ring is an array of entries, a power of two of them, and two indices that
// only grow and wrap at 2^32: produced counts the entries written so far,
// consumed those read. One side is ours, the other the kernel's, and the index
// of each side is written by that side alone, with release order, after it has
// written or read the entries that the index stands for. The race detector does
// not see the kernel: these atomics are all that orders our accesses and its.
//
// Each type keeps its own index and its last view of the other side's, looks at
// the shared one only when that view does not show enough, and publishes once a
// batch. Differences of indices are right across the wrap by unsigned
// arithmetic. A ring belongs to one goroutine; only level is for all.

// shared is the part of a ring that the kernel sees.
type shared[E any] struct {
	produced *uint32
	consumed *uint32
	flags    *uint32 // written by the kernel
	entries  []E
}

func (s *shared[E]) slot(i uint32) *E { return &s.entries[i&uint32(len(s.entries)-1)] }

// needsWakeup says whether the kernel waits for a system call before it looks
// at the ring again. Entries must be published before this is asked.
func (s *shared[E]) needsWakeup() bool {
	return atomic.LoadUint32(s.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

// level is the number of entries that wait in the ring.
func (s *shared[E]) level() uint32 {
	// In this order: what is consumed later than it is read was produced before.
	consumed := atomic.LoadUint32(s.consumed)
	return min(atomic.LoadUint32(s.produced)-consumed, uint32(len(s.entries)))
}

// producer is our side of a ring that the kernel takes from: fill and TX.
type producer[E any] struct {
	shared[E]
	next  uint32 // the entry that is written next
	limit uint32 // the first entry that the kernel had not given back when last looked at
}

func newProducer[E any](s shared[E]) producer[E] {
	return producer[E]{shared: s, next: atomic.LoadUint32(s.produced), limit: atomic.LoadUint32(s.consumed) + uint32(len(s.entries))}
}

// reserve returns how many entries, up to want, can be set now.
func (p *producer[E]) reserve(want uint32) uint32 {
	if p.limit-p.next < want {
		p.limit = atomic.LoadUint32(p.consumed) + uint32(len(p.entries))
	}
	return min(p.limit-p.next, want)
}

// set writes the i-th of the entries reserved.
func (p *producer[E]) set(i uint32, e E) { *p.slot(p.next + i) = e }

// submit gives the first n of the entries reserved to the kernel.
func (p *producer[E]) submit(n uint32) {
	p.next += n
	atomic.StoreUint32(p.produced, p.next)
}

// consumer is our side of a ring that the kernel fills: completion and RX.
type consumer[E any] struct {
	shared[E]
	next  uint32 // the entry that is read next
	limit uint32 // the first entry that the kernel had not written when last looked at
}

func newConsumer[E any](s shared[E]) consumer[E] {
	return consumer[E]{shared: s, next: atomic.LoadUint32(s.consumed), limit: atomic.LoadUint32(s.produced)}
}

// available returns how many entries, up to want, can be read now.
func (c *consumer[E]) available(want uint32) uint32 {
	if c.limit-c.next < want {
		c.limit = atomic.LoadUint32(c.produced)
	}
	return min(c.limit-c.next, want)
}

// at reads the i-th of the entries available.
func (c *consumer[E]) at(i uint32) E { return *c.slot(c.next + i) }

// release gives the first n of the entries available back to the kernel.
func (c *consumer[E]) release(n uint32) {
	c.next += n
	atomic.StoreUint32(c.consumed, c.next)
}
