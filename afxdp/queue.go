package afxdp

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/counter"
	"github.com/warproute/warproute/umem"
)

// Queue is one queue of a port with its socket. It belongs to one worker, whose
// memory and pool it uses; none of its methods blocks or allocates.
type Queue struct {
	socket
	pool     *umem.Pool
	port     uint16
	number   int // of the port's queues
	zeroCopy bool
	busy     bool // busy polling: our system calls do the driver's work; zero-copy only, from Linux 6.14 on

	// The kernel never has more than share frames to receive into, so that no
	// queue takes all of a worker's memory. It has receiving of them now.
	share, receiving int
	received         counter.Counter // frames that Receive returned

	// transmitting counts the descriptors of frames given to Transmit and not yet reclaimed.
	transmitting int

	pieces pieces // of frames that take more than one descriptor

	// Of an interface that takes the place of the queue's (Port.Reopen).
	next      atomic.Pointer[socket] // from the next Refill on
	reopening reopening
	mu        *sync.Mutex // of the Set; guards a change of sockets, and past
	past      counts      // of earlier sockets
}

// Number is which of the port's queues it is, as ethtool counts them, from 0.
func (q *Queue) Number() int { return q.number }

// Refill takes frames from the pool and gives them to the kernel to receive
// into, until it has the queue's share, the ring is full or the pool empty.
func (q *Queue) Refill() {
	if q.next.Load() != nil {
		q.renew()
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
	got := q.rx.available(uint32(len(dst)))
	if got == 0 {
		if !q.busy && !q.fill.needsWakeup() {
			return 0
		}
		q.wakeRX()
		got = q.rx.available(uint32(len(dst)))
		if got == 0 {
			return 0
		}
	}
	for i := range got {
		d := q.rx.at(i)
		if d.Options&unix.XDP_PKT_CONTD != 0 || q.pieces.open {
			f, whole := q.gather(d)
			if !whole {
				continue
			}
			dst[n] = f
		} else {
			dst[n] = batch.Frame{Addr: uint32(d.Addr), Len: uint16(d.Len), Port: q.port}
		}
		n++
	}
	q.received.Add(uint64(n)) // before they leave the ring, so that each is in one of the two
	q.rx.release(got)
	q.receiving -= int(got)
	return n
}

// Transmit takes the first n frames of src and starts sending them; n is less
// than len(src) when the ring stays full, and the rest stays the caller's. Each
// frame must lie within its umem.FrameSize bytes, or umem.LargeSize if it is a large one.
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

// put writes frames to the TX ring as far as there is room for them, and says how many
// and how many of its entries they use.
func (q *Queue) put(src []batch.Frame) (n int, used uint32) {
	if q.pieces.sending != nil {
		return q.putPieces(src)
	}
	room := q.tx.reserve(uint32(len(src)))
	for i, f := range src[:room] {
		q.tx.set(uint32(i), unix.XDPDesc{Addr: uint64(f.Addr), Len: uint32(f.Len)})
	}
	return int(room), room
}

// Reclaim puts the frames that have been sent back into the pool, tells the
// kernel again of those that it would not take before, and returns how many are
// still being sent.
func (q *Queue) Reclaim() (pending int) {
	q.complete()
	if q.transmitting > 0 && q.tx.level() > 0 {
		q.kick()
		q.complete()
	}
	return q.transmitting
}

// FD is the socket: poll(2) on it waits for received frames.
func (q *Queue) FD() int { return q.fd }

// complete puts the frames in the completion ring back into the pool.
func (q *Queue) complete() {
	n := q.completion.available(uint32(q.transmitting))
	if n == 0 {
		return
	}
	for i := range n {
		q.sent(uint32(q.completion.at(i)))
	}
	q.completion.release(n)
	q.transmitting -= int(n)
}

// sent puts the frame back into the pool that a descriptor was of, or the last of its
// descriptors.
func (q *Queue) sent(addr uint32) {
	if large := q.pool.Large(addr); large < 0 || q.pieces.sent(large) {
		q.pool.Put(addr)
	}
}

// kick tells the kernel to send what is in the TX ring and reports whether that
// made room in the ring.
//
// With zero-copy a call starts the NIC, which goes on by itself. In the copy
// modes the call itself sends frames, up to the kernel's budget, and nothing
// sends the rest, so we call until the ring is empty. EAGAIN says that the
// budget is used up, which happens once for each budget of frames, or that there
// is no room for more in the device, the send buffer or the completion ring.
// EBUSY says that a frame was dropped, as each is without a carrier. Anything
// else is success, with an empty ring, or an interface that is down or gone. The
// ring's level tells less than these: before Linux 6.17 the kernel may not
// publish what it has consumed until it has consumed all. What is left when no
// more can be done is for the next Transmit or Reclaim.
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
		q.complete() // the kernel sends nothing that it could not report as sent
		errno := q.wakeTX()
		if errno == unix.EAGAIN && budgets > 0 {
			budgets--
		} else if errno != unix.EBUSY {
			break
		}
	}
	return q.tx.level() < before
}

// The two wake-ups are raw system calls: they do not wait for anything, so the
// Go scheduler need not be told, which would cost more than many of the calls
// and let it give the worker's processor away. What they delay is a garbage
// collector that wants to stop this thread, by the time that sending one ring
// takes, at most some hundred microseconds.

// wakeTX has the kernel send.
func (q *Queue) wakeTX() unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// wakeRX has the kernel look at the fill ring, and receive if we busy poll. Its
// error, that the interface is down, needs no other answer than none received.
func (q *Queue) wakeRX() {
	unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(q.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
}
