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

// NIC is a goroutine that emulates the NIC of some queues: it writes received frames and reads
// transmitted ones, so that the workers only access rings, as with a real NIC.
type NIC struct {
	queues []*Queue
	stop   atomic.Bool
	done   chan struct{}
}

// StartNIC starts the emulated NIC of queues on a CPU, or any (affinity.Any). The workers of the
// queues must start after it and stop before it.
func StartNIC(cpu int, queues ...*Queue) (*NIC, error) {
	c := &NIC{queues: queues, done: make(chan struct{})}
	for _, q := range queues {
		q.hasNIC = true
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
		return nil, fmt.Errorf("start an emulated NIC: %w", err)
	}
	return c, nil
}

// Stop stops the emulated NIC. Frames stay in the queues.
func (c *NIC) Stop() {
	c.stop.Store(true)
	<-c.done
}

// run polls the queues.
func (c *NIC) run() {
	for !c.stop.Load() {
		for _, q := range c.queues {
			q.step()
		}
	}
}

// step transmits all posted frames of the queue, or a burst of a load, and receives a burst.
func (q *Queue) step() {
	if q.measured != nil {
		q.depart()
	} else {
		q.drain()
	}
	if q.offered != nil {
		q.offer(q.offered.now())
		return
	}
	frames, fill := q.rx.peekPosted(burst)
	if n := q.due(len(fill)); n > 0 {
		q.play(frames[:n], fill[:n])
		q.rx.complete(n)
	}
}

// drain transmits all posted frames.
func (q *Queue) drain() {
	for {
		frames, _ := q.tx.peekPosted(burst)
		if len(frames) == 0 {
			break
		}
		q.read(frames)
		q.tx.complete(len(frames))
	}
}

// read reads transmitted frames, unless they are left unread.
func (q *Queue) read(frames []batch.Frame) {
	if !q.unread || q.collect != nil {
		q.send(frames)
	}
}

// due returns the number of frames to receive now, up to n, and counts them.
func (q *Queue) due(n int) int {
	if q.recording == nil || q.recording.Len() == 0 || q.paused.Load() {
		return 0
	}
	if q.left >= 0 {
		n = min(n, q.left)
		q.left -= n
	}
	if n > 0 {
		q.arrived.Store(q.arrived.Load() + uint64(n)) // by one goroutine only
	}
	return n
}

// play writes the next packets to the frames of fill and their descriptors to dst.
func (q *Queue) play(dst []batch.Frame, fill []uint32) {
	if q.prepared != nil {
		q.next += copy(dst, q.prepared[q.next:])
		return
	}
	for len(dst) > 0 {
		k := min(q.recording.Len()-q.next, len(dst), burst)
		if q.recording.patches != nil {
			q.writePatched(dst[:k], fill[:k])
		} else {
			q.write(dst[:k], fill[:k])
		}
		dst, fill = dst[k:], fill[k:]
		if q.next += k; q.next == q.recording.Len() {
			q.next = 0
		}
	}
}

// write writes the next packets of a recording.
func (q *Queue) write(dst []batch.Frame, fill []uint32) {
	recorded := q.recording.frames[q.next:][:len(dst)]
	prefetch.ReadAt(q.recording.lines, recorded)
	for i, t := range recorded {
		dst[i] = q.describe(fill[i], int(t.length))
	}
	prefetch.WriteAt(q.mem, dst)
	for i, t := range recorded {
		q.put(dst[i], q.recording.of(t))
	}
}

// writePatched writes the next packets of a recording of one frame and patches.
func (q *Queue) writePatched(dst []batch.Frame, fill []uint32) {
	patches, like := q.recording.patches[q.next:][:len(dst)], q.recording.frames[0]
	for i, addr := range fill {
		dst[i] = q.describe(addr, int(like.length))
	}
	prefetch.WriteAt(q.mem, dst)
	lines := q.recording.of(like)
	for i := range patches {
		q.put(dst[i], lines)
		*(*patch)(q.mem[int(dst[i].Addr)+q.recording.offset:]) = patches[i]
	}
}

// describe returns the descriptor of a packet in a frame.
func (q *Queue) describe(frame uint32, length int) batch.Frame {
	return batch.Frame{Addr: frame + umem.DataOffset + stagger(frame, length), Len: uint16(length), Origin: batch.From(q.port)}
}

// put copies a packet by cache lines.
func (q *Queue) put(f batch.Frame, from []line) {
	to := q.mem[f.Addr-umem.Headroom:]
	for k := range from {
		*(*line)(to) = from[k]
		to = to[lineLen:]
	}
}

const (
	// maxStagger is the maximum offset of a packet behind umem.DataOffset.
	maxStagger = 15 * 64
	// tailroom stays free behind the packet, for a tunnel.
	tailroom = 64
)

// stagger returns the offset of a packet behind umem.DataOffset. Frames are 2,048 bytes apart: without
// it, the first lines of all packets would map to 1/32 of the L1 cache's sets, and every copy would
// miss. A NIC does not write to L1.
func stagger(frame uint32, length int) uint32 {
	if length > umem.MaxFrameLen-maxStagger-tailroom {
		return 0
	}
	return frame / umem.FrameSize % 16 * 64
}

// send reads transmitted frames as a NIC does: a word of each cache line loads the line.
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
