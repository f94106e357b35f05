package afxdp

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/counter"
	"github.com/warproute/warproute/umem"
)

// Queue is a queue of a port with its socket. One worker owns it, and it uses the worker's UMEM and
// pool. No method blocks or allocates.
type Queue struct {
	socket
	pool     *umem.Pool
	port     uint16
	number   int // of the queue in the port
	zeroCopy bool
	busy     bool // busy polling: system calls poll the driver; zero-copy only, from Linux 6.14 on

	// receiving is the number of frames that the kernel has to receive into. It is limited to share,
	// so that no queue takes the whole UMEM.
	share, receiving int
	received         counter.Counter // frames returned by Receive

	// transmitting is the number of descriptors submitted and not reclaimed.
	transmitting int

	multi multiBuffer

	// State of Port.Reopen.
	next    atomic.Pointer[socket] // socket that the next Refill switches to
	options socketOptions
	mu      *sync.Mutex // of the Set; guards the switch of sockets, and past
	past    counts      // of previous sockets

	first *socket // that has registered the UMEM, nil: this one; for Set.Bind

	lost int // frames that Release did not get back
}

// Number returns the number of the queue in the port, from 0, as in ethtool.
func (q *Queue) Number() int { return q.number }

// Refill moves frames from the pool to the fill ring, until the kernel has the queue's share, the ring
// is full or the pool empty.
func (q *Queue) Refill() {
	if q.next.Load() != nil {
		q.switchSocket()
	}
	n := q.fill.reserve(uint32(min(q.share-q.receiving, q.pool.Len())))
	if n == 0 {
		return
	}
	for i, frame := range q.pool.TakeBlock(int(n)) {
		q.fill.set(uint32(i), uint64(frame))
	}
	q.fill.submit(n)
	q.receiving += int(n)
	if q.fill.needsWakeup() {
		q.wakeRX()
	}
}

// Receive returns received frames in dst[:n] and gives them to the caller.
func (q *Queue) Receive(dst []batch.Frame) (n int) {
	got := q.rx.peek(uint32(len(dst)))
	if got == 0 {
		if !q.busy && !q.fill.needsWakeup() {
			return 0
		}
		q.wakeRX()
		got = q.rx.peek(uint32(len(dst)))
		if got == 0 {
			return 0
		}
	}
	for i := range got {
		d := q.rx.at(i)
		if d.Options&unix.XDP_PKT_CONTD != 0 || q.multi.open {
			f, whole := q.gather(d)
			if !whole {
				continue
			}
			dst[n] = f
		} else {
			dst[n] = batch.Frame{Addr: uint32(d.Addr), Len: uint16(d.Len), Origin: batch.From(q.port)}
		}
		n++
	}
	q.received.Add(uint64(n)) // before release, so that Stats counts each frame
	q.rx.release(got)
	q.receiving -= int(got)
	return n
}

// Transmit takes the first n frames of src and starts their transmission. n is less than len(src) if
// the TX ring stays full; the caller keeps the rest. A packet must not cross the end of its frame.
func (q *Queue) Transmit(src []batch.Frame) (n int) {
	for {
		taken, used := q.put(src[n:])
		q.tx.submit(used)
		q.transmitting += int(used)
		n += taken
		if !q.kick() || n == len(src) {
			return n
		}
	}
}

// put writes frames to the TX ring while there is room. It returns the numbers of frames and of
// descriptors.
func (q *Queue) put(src []batch.Frame) (n int, used uint32) {
	if q.multi.sending != nil {
		return q.putMulti(src)
	}
	room := q.tx.reserve(uint32(len(src)))
	for i, f := range src[:room] {
		q.tx.set(uint32(i), unix.XDPDesc{Addr: uint64(f.Addr), Len: uint32(f.Len)})
	}
	return int(room), room
}

// Reclaim puts transmitted frames back into the pool, kicks the kernel again if it has left frames in
// the TX ring, and returns the number of TX descriptors that are not completed.
func (q *Queue) Reclaim() (transmitting int) {
	q.reclaimCompleted()
	if q.transmitting > 0 && q.tx.level() > 0 {
		q.kick()
		q.reclaimCompleted()
	}
	return q.transmitting
}

// FD returns the socket; poll(2) on it waits for received frames.
func (q *Queue) FD() int { return q.fd }

// reclaimCompleted puts the frames in the completion ring back into the pool.
func (q *Queue) reclaimCompleted() {
	n := q.completion.peek(uint32(q.transmitting))
	if n == 0 {
		return
	}
	for i := range n {
		q.free(uint32(q.completion.at(i)))
	}
	q.completion.release(n)
	q.transmitting -= int(n)
}

// free puts the frame of a transmitted descriptor back into the pool, unless other descriptors of the
// frame are being transmitted.
func (q *Queue) free(addr uint32) {
	if large := q.pool.Large(addr); large < 0 || q.multi.completed(large) {
		q.pool.Put(addr)
	}
}

// kick has the kernel transmit the TX ring and reports whether the ring has more room.
//
// With zero-copy, one call starts the NIC. In the copy modes the call itself sends frames, up to the
// kernel's budget, so kick calls until the ring is empty:
//
//	EAGAIN  the budget is used up, which happens once per budget of frames, or the device, the
//	        send buffer or the completion ring is full
//	EBUSY   a frame was dropped, as all are without a carrier
//	others  the ring is empty, or the interface is down or deleted
//
// The level of the ring is less precise: before Linux 6.17 the kernel may publish the consumer index
// only at the end. The next Transmit or Reclaim retries the rest.
func (q *Queue) kick() (moved bool) {
	if !q.tx.needsWakeup() {
		return false
	}
	if q.zeroCopy {
		q.wakeTX()
		return false
	}
	before := q.tx.level()
	budgets := before / q.budget
	for range before {
		q.reclaimCompleted() // the kernel sends nothing while the completion ring is full
		errno := q.wakeTX()
		if errno == unix.EAGAIN && budgets > 0 {
			budgets--
		} else if errno != unix.EBUSY {
			break
		}
	}
	return q.tx.level() < before
}

// The two wake-ups are raw system calls. They do not block, so the Go scheduler does not need to know,
// which would cost more than many of the calls and lose the worker's P. They can delay a stop of the
// world by the time to send one ring, some hundred microseconds.

// wakeTX has the kernel send.
func (q *Queue) wakeTX() unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// wakeRX has the kernel process the fill ring, and receive with busy polling. The only error, that the
// interface is down, needs no handling.
func (q *Queue) wakeRX() {
	unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
}
