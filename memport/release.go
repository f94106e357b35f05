package memport

// Pending returns the number of frames that Receive would return.
func (q *Queue) Pending() int {
	n := q.rx.held()
	switch {
	case q.hasNIC:
		return int(q.rx.done.Load() - q.rx.worker.released)
	case q.recording == nil || q.recording.Len() == 0 || q.paused.Load():
		return 0
	case q.left >= 0:
		return min(n, q.left)
	}
	return n
}

// Release puts all frames of the queue back into the pool: the queue must have no emulated NIC, and no prepared
// frames. It has transmitted all packets.
func (q *Queue) Release() (packets, bytes uint64) {
	q.Reclaim()
	for held := q.rx.held(); held > 0; held = q.rx.held() {
		_, addrs := q.rx.slots(q.rx.worker.released, held)
		q.pool.PutBlock(addrs)
		q.rx.release(len(addrs))
	}
	return 0, 0
}
