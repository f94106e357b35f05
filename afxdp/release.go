package afxdp

import "golang.org/x/sys/unix"

// Pending returns the number of received frames that Receive has not returned.
func (q *Queue) Pending() int { return int(q.rx.level()) }

// Release puts the frames in the rings back into the pool, and returns the packets, and their bytes, that the
// kernel has not transmitted. Received frames count as lost (PortStats.RxDropped). The program must be
// detached, and the queue is not used again.
//
// It does not get back frames that the kernel still transmits, and those that a driver keeps with zero-copy:
// the kernel may access them until the interface is gone. Set.Remove reports their number.
func (q *Queue) Release() (packets, bytes uint64) {
	q.reclaimCompleted()
	for q.rx.peek(1) > 0 {
		d := q.rx.at(0)
		q.pool.Put(uint32(d.Addr))
		q.rx.release(1)
		q.receiving--
		if d.Options&unix.XDP_PKT_CONTD == 0 { // the last descriptor of a frame
			q.multi.dropped.Add(1)
		}
	}
	q.multi.reset(q.pool)
	q.fill.unconsumed(func(addr uint64) {
		q.pool.Put(uint32(addr))
		q.receiving--
	})
	q.tx.unconsumed(func(d unix.XDPDesc) {
		bytes += uint64(d.Len)
		if d.Options&unix.XDP_PKT_CONTD == 0 {
			packets++
		}
		q.free(uint32(d.Addr))
		q.transmitting--
	})
	q.lost = q.receiving + q.transmitting
	return packets, bytes
}
