// Package memport provides ports that are memory: they play frames back and
// collect what is sent, through the same queues, frames and rings of free frames
// as a network card's. Benchmarks and tests run the whole router on them.
//
// A frame goes round as with AF_XDP: the pool gives it to the queue (Refill), the
// queue writes a packet into it as a card's DMA would (Receive), the worker sends
// it (Transmit), the queue copies the packet out and gives the frame back to the
// pool (Reclaim). The copies are the port's own cost.
package memport

import (
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// ringSize bounds the frames that a queue has for receiving and those sent but
// not yet reclaimed, as a card's rings would.
const ringSize = 2048

// Queue is one queue of a memory port.
type Queue struct {
	port uint16
	mem  []byte
	pool *umem.Pool

	fill []uint32 // frames to receive into
	sent []uint32 // frames to reclaim

	play   [][]byte // frames to receive, again and again
	next   int
	left   int // how many more to play; negative: no end
	paused atomic.Bool

	wire    []byte // what was sent last, as a card would have put it on the wire
	collect func(frame []byte)
}

// wireSize is how many bytes of sent frames are kept before they are written
// over: a second-level cache's worth, as a card reads from there too.
const wireSize = 1 << 18

// New returns the queue of a port in a worker's memory. It receives nothing
// until Play says what.
func New(port uint16, mem *umem.Memory, pool *umem.Pool) *Queue {
	return &Queue{
		port: port, mem: mem.Bytes(), pool: pool,
		fill: make([]uint32, 0, ringSize), sent: make([]uint32, 0, ringSize),
		wire: make([]byte, 0, wireSize),
	}
}

// Play makes the queue receive the given frames in turn, count of them in all,
// or without end where count is negative. Set it before the router starts.
func (q *Queue) Play(frames [][]byte, count int) {
	q.play, q.next, q.left = frames, 0, count
}

// Collect has every sent frame passed to f, which must not keep the slice. Set it
// before the router starts; without it frames are only copied out.
func (q *Queue) Collect(f func(frame []byte)) { q.collect = f }

// Pause stops the playing for good. Any goroutine may call it.
func (q *Queue) Pause() { q.paused.Store(true) }

// Held is the number of frames that the queue holds, for receiving or sent.
// The router must have stopped.
func (q *Queue) Held() int { return len(q.fill) + len(q.sent) }

func (q *Queue) Refill() {
	for len(q.fill) < ringSize && q.pool.Len() > 0 {
		q.fill = append(q.fill, q.pool.Take())
	}
}

func (q *Queue) Receive(dst []batch.Frame) int {
	if len(q.play) == 0 || q.paused.Load() {
		return 0
	}
	n := min(len(dst), len(q.fill))
	if q.left >= 0 {
		n = min(n, q.left)
		q.left -= n
	}
	for i := range n {
		top := len(q.fill) - 1
		packet := q.play[q.next]
		addr := q.fill[top] + umem.DataOffset + stagger(q.fill[top], len(packet))
		q.fill = q.fill[:top]
		length := copy(q.mem[addr:addr+uint32(min(len(packet), umem.MaxFrameLen))], packet)
		if q.next++; q.next == len(q.play) {
			q.next = 0
		}
		dst[i] = batch.Frame{Addr: addr, Len: uint16(length), Port: q.port}
	}
	return n
}

const (
	// maxStagger is how much further back than others a packet may begin in its frame.
	maxStagger = 15 * 64
	// tail is what stays free behind such a packet, as a tunnel may lengthen it there.
	tail = 64
)

// stagger is where in a frame a packet begins, behind the usual place. Frames are
// 2048 bytes apart: if all packets began alike, their first lines would share a
// thirtieth of the first caches' sets, and each copy miss them. A card has no such
// trouble, as it writes past these caches.
func stagger(frame uint32, length int) uint32 {
	if length > umem.MaxFrameLen-maxStagger-tail {
		return 0
	}
	return frame / umem.FrameSize % 16 * 64
}

func (q *Queue) Transmit(src []batch.Frame) int {
	src = src[:min(len(src), ringSize-len(q.sent))]
	for _, f := range src {
		frame := q.mem[f.Addr : uint64(f.Addr)+uint64(f.Len)]
		if len(q.wire)+len(frame) > cap(q.wire) {
			q.wire = q.wire[:0]
		}
		q.wire = append(q.wire, frame...)
		if q.collect != nil {
			q.collect(frame)
		}
		q.sent = append(q.sent, f.Addr)
	}
	return len(src)
}

func (q *Queue) Reclaim() (pending int) {
	for _, addr := range q.sent {
		q.pool.Put(addr)
	}
	q.sent = q.sent[:0]
	return 0
}

// FD is -1: a memory port is never waited for.
func (q *Queue) FD() int { return -1 }
