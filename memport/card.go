package memport

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/prefetch"
	"github.com/warproute/warproute/umem"
)

// Card is a core that is the card of some queues: it writes what they receive and reads what
// they send, and leaves to their workers what workers have to do with a card, which is to
// move entries of rings.
type Card struct {
	queues []*Queue
	stop   atomic.Bool
	done   chan struct{}
}

// StartCard has a core, or any one (affinity.Any), be the card of queues from now on. Their
// workers must not have started, and must have stopped before the card does.
func StartCard(cpu int, queues ...*Queue) (*Card, error) {
	c := &Card{queues: queues, done: make(chan struct{})}
	for _, q := range queues {
		q.carded = true
	}
	pinned := make(chan error)
	go func() {
		defer close(c.done)
		restore, err := affinity.Pin(cpu)
		pinned <- err
		if err == nil {
			defer restore()
			c.run()
		}
	}()
	if err := <-pinned; err != nil {
		return nil, fmt.Errorf("start a card: %w", err)
	}
	return c, nil
}

// Stop ends the card's work. What its queues hold then, they keep.
func (c *Card) Stop() {
	c.stop.Store(true)
	<-c.done
}

// run polls, as a card does.
func (c *Card) run() {
	for !c.stop.Load() {
		for _, q := range c.queues {
			q.step()
		}
	}
}

// step is what a card does for the queue in a moment: it sends what there is to send, and
// receives a burst.
func (q *Queue) step() {
	for {
		frames, _ := q.tx.waiting(burst)
		if len(frames) == 0 {
			break
		}
		q.send(frames)
		q.tx.finish(len(frames))
	}
	frames, fill := q.rx.waiting(burst)
	if n := q.due(len(fill)); n > 0 {
		q.play(frames[:n], fill[:n])
		q.rx.finish(n)
	}
}

// due returns how many frames are to be played now, where there is room for n, and counts
// them as played.
func (q *Queue) due(n int) int {
	if q.tape == nil || q.tape.Len() == 0 || q.paused.Load() {
		return 0
	}
	if q.left >= 0 {
		n = min(n, q.left)
		q.left -= n
	}
	return n
}

// play receives into the frames of fill, and describes them.
func (q *Queue) play(dst []batch.Frame, fill []uint32) {
	for len(dst) > 0 {
		k := min(q.tape.Len()-q.next, len(dst), burst)
		if q.tape.places != nil {
			q.writePlaces(dst[:k], fill[:k])
		} else {
			q.write(dst[:k], fill[:k])
		}
		dst, fill = dst[k:], fill[k:]
		if q.next += k; q.next == q.tape.Len() {
			q.next = 0
		}
	}
}

// write writes the next frames of a tape.
func (q *Queue) write(dst []batch.Frame, fill []uint32) {
	tracks := q.tape.tracks[q.next:][:len(dst)]
	prefetch.ReadAt(q.tape.lines, tracks)
	for i, t := range tracks {
		dst[i] = q.describe(fill[i], int(t.length))
	}
	prefetch.WriteAt(q.mem, dst)
	for i, t := range tracks {
		q.put(dst[i], q.tape.of(t))
	}
}

// writePlaces does so with a tape of one frame and the places in which others differ.
func (q *Queue) writePlaces(dst []batch.Frame, fill []uint32) {
	places, like := q.tape.places[q.next:][:len(dst)], q.tape.tracks[0]
	for i, addr := range fill {
		dst[i] = q.describe(addr, int(like.length))
	}
	prefetch.WriteAt(q.mem, dst)
	lines := q.tape.of(like)
	for i := range places {
		q.put(dst[i], lines)
		*(*place)(q.mem[int(dst[i].Addr)+q.tape.first:]) = places[i]
	}
}

// describe says where in a frame a packet begins.
func (q *Queue) describe(frame uint32, length int) batch.Frame {
	return batch.Frame{Addr: frame + umem.DataOffset + stagger(frame, length), Len: uint16(length), Port: q.port}
}

// put writes a frame's lines.
func (q *Queue) put(f batch.Frame, from []line) {
	to := q.mem[f.Addr-umem.Headroom:]
	for k := range from {
		*(*line)(to) = from[k]
		to = to[lineLen:]
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

// send reads frames, as a card does, which keeps none: a word of each line, for which the
// whole line comes.
func (q *Queue) send(frames []batch.Frame) {
	for len(frames) > burst {
		q.send(frames[:burst])
		frames = frames[burst:]
	}
	prefetch.ReadAt(q.mem, frames)
	sum := q.sum
	for _, f := range frames {
		end := int(f.Addr) + int(f.Len)
		for at := int(f.Addr) &^ (lineLen - 1); at < end; at += lineLen {
			sum ^= binary.LittleEndian.Uint64(q.mem[at:])
		}
		if q.collect != nil {
			q.collect(q.mem[f.Addr:end])
		}
	}
	q.sum = sum
}
