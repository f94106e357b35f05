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
	"github.com/warproute/warproute/internal/prefetch"
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

	tape   *Tape // frames to receive, again and again
	next   int
	left   int // how many more to play; negative: no end
	paused atomic.Bool

	wire    []line // what was sent last, as a card would have put it on the wire,
	end     int    // up to here
	collect func(frame []byte)
}

// wireLines is how much of the sent frames is kept before it is written over: a
// second-level cache's worth, as a card reads from there too.
const wireLines = 1 << 12

// burst is how many frames are asked for at once, for all misses of the caches to overlap:
// a card does not wait for them one by one either.
const burst = 64

// New returns the queue of a port in a worker's memory. It receives nothing
// until Play says what.
func New(port uint16, mem *umem.Memory, pool *umem.Pool) *Queue {
	return &Queue{
		port: port, mem: mem.Bytes(), pool: pool,
		fill: make([]uint32, 0, ringSize), sent: make([]uint32, 0, ringSize),
		wire: make([]line, wireLines),
	}
}

// Play makes the queue receive the given frames in turn, count of them in all,
// or without end where count is negative. Set it before the router starts.
func (q *Queue) Play(frames [][]byte, count int) { q.PlayTape(Record(frames), 0, count) }

// PlayTape is Play for the frames of a tape, from one of them on.
func (q *Queue) PlayTape(t *Tape, first, count int) { q.tape, q.next, q.left = t, first, count }

// Collect has every sent frame passed to f, which must not keep the slice. Set it
// before the router starts; without it frames are only copied out.
func (q *Queue) Collect(f func(frame []byte)) { q.collect = f }

// Pause stops the playing for good. Any goroutine may call it.
func (q *Queue) Pause() { q.paused.Store(true) }

// Held is the number of frames that the queue holds, for receiving or sent.
// The router must have stopped.
func (q *Queue) Held() int { return len(q.fill) + len(q.sent) }

func (q *Queue) Refill() {
	q.fill = append(q.fill, q.pool.TakeBlock(min(ringSize-len(q.fill), q.pool.Len()))...)
}

func (q *Queue) Receive(dst []batch.Frame) int {
	if q.tape == nil || q.tape.Len() == 0 || q.paused.Load() {
		return 0
	}
	n := min(len(dst), len(q.fill))
	if q.left >= 0 {
		n = min(n, q.left)
		q.left -= n
	}
	for dst = dst[:n]; len(dst) > 0; {
		tracks := q.tape.tracks[q.next:]
		tracks = tracks[:min(len(tracks), len(dst), burst)]
		q.receive(dst[:len(tracks)], tracks)
		dst = dst[len(tracks):]
		if q.next += len(tracks); q.next == q.tape.Len() {
			q.next = 0
		}
	}
	return n
}

// receive writes a frame for each track.
func (q *Queue) receive(dst []batch.Frame, tracks []track) {
	prefetch.ReadAt(q.tape.lines, tracks)
	left := len(q.fill) - len(dst)
	fill := q.fill[left:]
	q.fill = q.fill[:left]
	for i, t := range tracks {
		addr := fill[i] + umem.DataOffset + stagger(fill[i], int(t.length))
		dst[i] = batch.Frame{Addr: addr, Len: uint16(t.length), Port: q.port}
	}
	prefetch.WriteAt(q.mem, dst)
	for i, t := range tracks {
		to, from := q.mem[dst[i].Addr-umem.Headroom:], q.tape.of(t)
		for k := range from {
			*(*line)(to) = from[k]
			to = to[lineLen:]
		}
	}
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
	for rest := src; len(rest) > 0; {
		n := min(len(rest), burst)
		q.send(rest[:n])
		rest = rest[n:]
	}
	return len(src)
}

// send copies frames to the wire.
func (q *Queue) send(frames []batch.Frame) {
	prefetch.ReadAt(q.mem, frames)
	sent := q.sent
	for _, f := range frames {
		ahead := f.Addr % uint32(lineLen)
		from, lines := q.mem[f.Addr-ahead:], linesOf(int(ahead)+int(f.Len))
		if q.end+lines > len(q.wire) {
			q.end = 0
		}
		wire := q.wire[q.end : q.end+lines]
		for i := range wire {
			wire[i] = line(from)
			from = from[lineLen:]
		}
		q.end += lines
		if q.collect != nil {
			q.collect(q.mem[f.Addr : uint64(f.Addr)+uint64(f.Len)])
		}
		sent = append(sent, f.Addr)
	}
	q.sent = sent
}

func (q *Queue) Reclaim() (pending int) {
	q.pool.PutBlock(q.sent)
	q.sent = q.sent[:0]
	return 0
}

// FD is -1: a memory port is never waited for.
func (q *Queue) FD() int { return -1 }
