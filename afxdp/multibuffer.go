package afxdp

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// multiBuffer is the state of frames with several descriptors (AF_XDP multi-buffer, Linux 6.6): all
// descriptors but the last have XDP_PKT_CONTD. The worker sees such a frame as contiguous bytes in a
// large frame of package umem.
//
// Received fragments are copied together, which costs a jumbo frame about as much as the kernel's own
// copy. A transmitted large frame is cut at the boundaries of the small frames that it consists of,
// without a copy. A queue of a worker without large frames has no such frames.
type multiBuffer struct {
	mem []byte

	// The frame being received.
	open bool   // its last descriptor has not arrived
	lost bool   // it is dropped: no large frame is free, or it is too long
	to   uint32 // its large frame, unless lost
	n    int    // bytes so far

	dropped atomic.Uint64 // lost frames; any goroutine may read it

	// sending is the number of descriptors of each large frame that the kernel has not completed;
	// nil without large frames.
	sending []uint8
}

// gather adds a descriptor to the frame being received. It returns the frame when it is complete.
func (q *Queue) gather(d unix.XDPDesc) (f batch.Frame, complete bool) {
	m := &q.multi
	if !m.open {
		m.open, m.lost, m.n = true, q.pool.LargeLen() == 0, 0
		if !m.lost {
			m.to = q.pool.TakeLarge() + umem.DataOffset
		}
	}
	if !m.lost && m.n+int(d.Len) > umem.MaxLargeLen {
		m.lost = true
		q.pool.Put(m.to)
	}
	if !m.lost {
		m.n += copy(m.mem[m.to+uint32(m.n):], m.mem[d.Addr:d.Addr+uint64(d.Len)])
	}
	q.pool.Put(uint32(d.Addr))
	if d.Options&unix.XDP_PKT_CONTD != 0 {
		return f, false
	}
	m.open = false
	if m.lost {
		m.dropped.Add(1)
		return f, false
	}
	return batch.Frame{Addr: m.to, Len: uint16(m.n), Origin: batch.From(q.port)}, true
}

// putMulti is put for a worker with large frames. It writes all descriptors of a frame or none.
func (q *Queue) putMulti(src []batch.Frame) (n int, used uint32) {
	for _, f := range src {
		count := uint32(1)
		large := q.pool.Large(f.Addr)
		if large >= 0 {
			count = (f.Addr%umem.FrameSize+uint32(f.Len)-1)/umem.FrameSize + 1
		}
		if q.tx.reserve(used+count) < used+count {
			break
		}
		if large >= 0 {
			q.multi.sending[large] = uint8(count)
		}
		for at, left := f.Addr, uint32(f.Len); count > 0; count-- {
			d := unix.XDPDesc{Addr: uint64(at), Len: left}
			if count > 1 {
				d.Len, d.Options = umem.FrameSize-at%umem.FrameSize, unix.XDP_PKT_CONTD
			}
			q.tx.set(used, d)
			used++
			at, left = at+d.Len, left-d.Len
		}
		n++
	}
	return n, used
}

// completed counts a completed descriptor of a large frame and reports whether it was the last.
func (m *multiBuffer) completed(large int) bool {
	m.sending[large]--
	return m.sending[large] == 0
}

// reset drops the frame being received: its other descriptors will not arrive.
func (m *multiBuffer) reset(pool *umem.Pool) {
	if m.open && !m.lost {
		pool.Put(m.to)
	}
	m.open = false
}
