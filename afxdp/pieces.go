package afxdp

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// Frames that no frame of memory holds come from the kernel in several, each but the last
// of them marked as to be continued, and go to it as several pieces, marked alike (Linux
// 6.6, "AF_XDP multi-buffer"). In between they are bytes in a row, in a large frame.
//
// Received, they are copied there, which costs a jumbo frame about as much again as the
// kernel's own copy, and other frames nothing. Transmitted, they are cut where the frames of
// memory that a large one consists of meet, and nothing is copied. A queue of a worker
// without large frames sees none of this.
type pieces struct {
	mem []byte

	// The frame that is being received.
	open bool   // there is one
	lost bool   // and it is thrown away, for want of a large frame or as longer than that
	to   uint32 // the large frame that it goes to, unless it is lost
	n    int    // bytes of it so far
	// How many were thrown away; read by others.
	dropped atomic.Uint64

	// sending is of how many pieces of each large frame the kernel has not said yet that
	// they are sent; nil where the worker has no large frames.
	sending []uint8
}

// gather adds a piece to the frame that is being received. It gives the frame to the caller
// when it is whole.
func (q *Queue) gather(d unix.XDPDesc) (f batch.Frame, whole bool) {
	p := &q.pieces
	if !p.open {
		p.open, p.lost, p.n = true, q.pool.LargeLen() == 0, 0
		if !p.lost {
			p.to = q.pool.TakeLarge() + umem.DataOffset
		}
	}
	if !p.lost && p.n+int(d.Len) > umem.MaxLargeLen {
		p.lost = true
		q.pool.Put(p.to)
	}
	if !p.lost {
		p.n += copy(p.mem[p.to+uint32(p.n):], p.mem[d.Addr:d.Addr+uint64(d.Len)])
	}
	q.pool.Put(uint32(d.Addr))
	if d.Options&unix.XDP_PKT_CONTD != 0 {
		return f, false
	}
	p.open = false
	if p.lost {
		p.dropped.Add(1)
		return f, false
	}
	return batch.Frame{Addr: p.to, Len: uint16(p.n), Port: q.port}, true
}

// putPieces does what put does where there may be large frames: it writes all pieces of a
// frame or none.
func (q *Queue) putPieces(src []batch.Frame) (n int, used uint32) {
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
			q.pieces.sending[large] = uint8(count)
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

// sent reports whether the frame that addr lies in has been sent, now that the piece there
// has.
func (p *pieces) sent(large int) bool {
	p.sending[large]--
	return p.sending[large] == 0
}

// abandon gives up the frame that is being received: its other pieces will not come.
func (p *pieces) abandon(pool *umem.Pool) {
	if p.open && !p.lost {
		pool.Put(p.to)
	}
	p.open = false
}
