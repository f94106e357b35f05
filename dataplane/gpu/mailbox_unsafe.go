package gpu

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
)

// The layout of a mailbox; mailbox.h has the same and says why.
const (
	unitWords  = 8 // of 8 bytes: a cache line
	unitFrames = 7
	quadFrames = 28
	quadBytes  = 256
	stopSize   = 1<<32 - 1

	headQuads = 3       // how many quads may have their packets' heads beside them
	headsSize = 1 << 30 // in a chunk's size: they have
	headWords = 8       // of a head: a cache line
	tags      = 0xffff

	doneQuads  = 16  // say when they are done, with every 16th behind them
	doneBytes  = 256 // a slot begins with that
	frameBytes = 8
)

// mailbox is host memory in which a worker and its blocks on the GPU meet.
type mailbox struct {
	mem       []byte
	slots     []slot
	slotBytes int
	quadsAt   int
	headsAt   int
}

// slot is the place of one chunk in flight. The worker owns it; what the GPU
// writes to it, done and results, is read when done has the sequence number.
type slot struct {
	seq     uint32 // of the chunk that was posted last,
	parts   int    // and how many of done it has
	done    []uint32
	results []batch.Result
	quads   []uint64
	heads   []uint64
	round   uint32 // of tags
	flags   uint32 // goes with the size of the next chunk
}

// newMailbox maps a mailbox for chunks of up to size packets.
func newMailbox(slots, size int) (*mailbox, error) {
	quads := (size + quadFrames - 1) / quadFrames
	results := (quads*quadFrames*frameBytes + quadBytes - 1) / quadBytes * quadBytes
	heads := min(quads, headQuads) * quadBytes * headWords
	m := &mailbox{quadsAt: doneBytes + results, headsAt: doneBytes + results + quads*quadBytes}
	m.slotBytes = m.headsAt + heads
	var err error
	m.mem, err = unix.Mmap(-1, 0, slots*m.slotBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for a mailbox of %d chunks: %w", slots*m.slotBytes, slots, err)
	}
	for i := range slots {
		b := m.mem[i*m.slotBytes : (i+1)*m.slotBytes]
		m.slots = append(m.slots, slot{
			done:    unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), doneQuads),
			results: unsafe.Slice((*batch.Result)(unsafe.Pointer(&b[doneBytes])), quads*quadFrames),
			quads:   unsafe.Slice((*uint64)(unsafe.Pointer(&b[m.quadsAt])), quads*quadBytes/8),
			heads:   unsafe.Slice((*uint64)(unsafe.Pointer(&b[m.headsAt])), heads/8),
		})
	}
	return m, nil
}

// idle tells whether the GPU is done with everything that was posted.
func (m *mailbox) idle() bool {
	for i := range m.slots {
		if !m.slots[i].finished() {
			return false
		}
	}
	return true
}

func (m *mailbox) close() error { return unix.Munmap(m.mem) }

// post gives a chunk to the slot's block: the descriptors, then the heads of their
// units from the last to the first, where the block looks first. The processor
// stores in this order. Frames in umem, if it is not nil, send their own heads along.
func (s *slot) post(frames []batch.Frame, umem []byte) {
	n := uint32(len(frames)) | s.flags
	if umem != nil && s.copyHeads(frames, umem) {
		n |= headsSize
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(frames))), len(frames))
	for to := s.quads; len(words) > 0; to = to[unitWords:] {
		n := copy(to[1:unitWords], words)
		words = words[n:]
	}
	quads := (len(frames) + quadFrames - 1) / quadFrames
	s.parts = min(quads, doneQuads)
	s.ring(n, quads)
}

// copyHeads puts the first bytes of frames, from 2 before each on, beside the
// descriptors that are posted next, and their tag in the place of those 2. It says
// no to chunks that are too large for it, and to frames of which that is not a line.
func (s *slot) copyHeads(frames []batch.Frame, umem []byte) bool {
	const line = headWords * 8
	if len(frames) > len(s.heads)/headWords/unitWords*unitFrames {
		return false
	}
	for _, f := range frames {
		if f.Addr%16 != 2 || int(f.Addr) > len(umem)-line {
			return false
		}
	}
	next := s.seq + 1
	if next/tags != s.round { // tags begin anew: none is left of the last time
		s.round = next / tags
		clear(s.heads)
	}
	tag := uint64(1 + next%tags)
	for i, f := range frames {
		from := (*[headWords]uint64)(unsafe.Pointer(&umem[f.Addr-2]))
		at := i/unitFrames*unitWords + 1 + i%unitFrames
		to := (*[headWords]uint64)(s.heads[at*headWords:])
		copy(to[1:], from[1:])
		publish(&to[0], from[0]&^tags|tag)
	}
	return true
}

// stop tells the slot's block to end.
func (s *slot) stop() { s.ring(stopSize, 1) }

func (s *slot) ring(n uint32, quads int) {
	s.seq++
	head := uint64(s.seq) | uint64(n)<<32
	for at := (quads*4 - 1) * unitWords; at >= 0; at -= unitWords {
		publish(&s.quads[at], head)
	}
}

// finished tells whether the GPU is done with what was posted last.
func (s *slot) finished() bool {
	for i := range s.done[:s.parts] {
		if atomic.LoadUint32(&s.done[i]) != s.seq {
			return false
		}
	}
	return true
}

// copyResults copies the results of a finished chunk.
func (s *slot) copyResults(to []batch.Result) { copy(to, s.results) }
