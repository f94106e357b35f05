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

	headQuads   = 3       // how many quads may have their packets' heads beside them
	headsSize   = 1 << 30 // in a chunk's size: they have,
	halvesSize  = 1 << 28 // or halves
	headWords   = 8       // of a head: a cache line
	halfWords   = 4
	halfAt      = 12 // byte of the head at which a half begins
	answerWords = 4
	tags        = 0xffff

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
	halvesAt  int
	answersAt int
}

// slot is the place of one chunk in flight. The worker owns it; of what the GPU writes
// to it, a quad's results are read when done has the sequence number, and answers when
// they have the tag.
type slot struct {
	seq     uint32 // of the chunk that was posted last,
	parts   int    // how many of done it has,
	hurried int    // and how many of its heads went along: all or none
	done    []uint32
	results []batch.Result
	quads   []uint64
	heads   []head
	halves  []half
	answers []answer
	round   uint32 // of tags
	flags   uint32 // of the chunk that was posted last

	// What was found so far: parts that are finished, packets that are, and a bit for each
	// part that was answered.
	part, packet int
	answered     uint32
}

// By packet, each in its lane: heads and their halves, and what becomes of them.
type (
	head   [headWords]uint64
	half   [halfWords]uint64
	answer [answerWords]uint64
)

// newMailbox maps a mailbox for chunks of up to size packets.
func newMailbox(slots, size int) (*mailbox, error) {
	quads := (size + quadFrames - 1) / quadFrames
	results := (quads*quadFrames*frameBytes + quadBytes - 1) / quadBytes * quadBytes
	lanes := min(quads, headQuads) * quadBytes / 8
	m := &mailbox{quadsAt: doneBytes + results, headsAt: doneBytes + results + quads*quadBytes}
	m.halvesAt = m.headsAt + 8*headWords*lanes
	m.answersAt = m.halvesAt + 8*halfWords*lanes
	m.slotBytes = m.answersAt + 8*answerWords*lanes
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
			heads:   unsafe.Slice((*head)(unsafe.Pointer(&b[m.headsAt])), lanes),
			halves:  unsafe.Slice((*half)(unsafe.Pointer(&b[m.halvesAt])), lanes),
			answers: unsafe.Slice((*answer)(unsafe.Pointer(&b[m.answersAt])), lanes),
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
// stores in this order. Frames in umem, if it is not nil, send their own heads along. flags
// go with the size.
func (s *slot) post(frames []batch.Frame, umem []byte, flags uint32) {
	n := uint32(len(frames)) | flags
	s.flags, s.hurried = flags, 0
	if umem != nil {
		if heads := s.copyHeads(frames, umem); heads != 0 {
			s.hurried = len(frames)
			n |= heads
		}
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

// stop tells the slot's block to end.
func (s *slot) stop() { s.ring(stopSize, 1) }

func (s *slot) ring(n uint32, quads int) {
	s.seq++
	s.part, s.packet, s.answered = 0, 0, 0
	head := uint64(s.seq) | uint64(n)<<32
	for at := (quads*4 - 1) * unitWords; at >= 0; at -= unitWords {
		publish(&s.quads[at], head)
	}
}

// finished tells whether the GPU is done with what was posted last.
func (s *slot) finished() bool {
	for ; s.part < s.parts; s.part++ {
		end := (s.part + 1) * quadFrames
		if atomic.LoadUint32(&s.done[s.part]) == s.seq {
			s.packet = end
			continue
		}
		if !s.findAnswers(min(end, s.hurried)) {
			return false
		}
		s.answered |= 1 << s.part
	}
	return true
}

// copyResults copies the results of a finished chunk, and clears them, so that no later chunk
// can have them for its own. Parts that were answered have none.
func (s *slot) copyResults(to []batch.Result) { clear(s.results[:copy(to, s.results)]) }
