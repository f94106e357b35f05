package memport

import (
	"slices"

	"github.com/warproute/warproute/batch"
)

// Prepare takes n frames from the pool and writes the packets to receive to them in advance, so that
// DMA is free: the arrival of a packet costs an emulated NIC only a descriptor. Each packet is received
// once, because the router rewrites it in place; then nothing more is received.
//
// Call it after Play and before the router starts. The queue needs an emulated NIC. Prepared packets are
// in memory, not in a cache of the NIC's core, as after DMA without direct cache access.
func (q *Queue) Prepare(n int) {
	if q.recording == nil || q.recording.Len() == 0 {
		return
	}
	fill := slices.Clone(q.pool.TakeBlock(n))
	frames := make([]batch.Frame, n)
	q.play(frames, fill)
	q.prepared, q.next = frames, 0
}

// refillPrepared is Refill with prepared frames. The NIC finds their descriptors in the same order.
func (q *Queue) refillPrepared() {
	left := q.prepared[q.refilled:]
	left = left[:min(len(left), ringSize-q.rx.held())]
	if len(left) == 0 {
		return
	}
	for len(left) > 0 {
		_, addrs := q.rx.reserve(len(left))
		for i := range addrs {
			addrs[i] = left[i].Addr
		}
		q.rx.post(len(addrs))
		q.refilled += len(addrs)
		left = left[len(addrs):]
	}
	q.rx.publish()
}
