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

	doneBytes  = 256 // a slot begins with it
	frameBytes = 8
)

// mailbox is host memory in which a worker and its blocks on the GPU meet.
type mailbox struct {
	mem       []byte
	slots     []slot
	slotBytes int
	quadsAt   int
}

// slot is the place of one chunk in flight. The worker owns it; what the GPU
// writes to it, done and results, is read when done has the sequence number.
type slot struct {
	seq     uint32 // of the chunk that was posted last
	done    *uint32
	results []batch.Result
	quads   []uint64
}

// newMailbox maps a mailbox for chunks of up to size packets.
func newMailbox(slots, size int) (*mailbox, error) {
	quads := (size + quadFrames - 1) / quadFrames
	results := (quads*quadFrames*frameBytes + quadBytes - 1) / quadBytes * quadBytes
	m := &mailbox{quadsAt: doneBytes + results, slotBytes: doneBytes + results + quads*quadBytes}
	var err error
	m.mem, err = unix.Mmap(-1, 0, slots*m.slotBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes for a mailbox of %d chunks: %w", slots*m.slotBytes, slots, err)
	}
	for i := range slots {
		b := m.mem[i*m.slotBytes : (i+1)*m.slotBytes]
		m.slots = append(m.slots, slot{
			done:    (*uint32)(unsafe.Pointer(&b[0])),
			results: unsafe.Slice((*batch.Result)(unsafe.Pointer(&b[doneBytes])), quads*quadFrames),
			quads:   unsafe.Slice((*uint64)(unsafe.Pointer(&b[m.quadsAt])), quads*quadBytes/8),
		})
	}
	return m, nil
}

func (m *mailbox) close() error { return unix.Munmap(m.mem) }

// post gives a chunk to the slot's block: the descriptors, then the heads of their
// units from the last to the first, where the block looks first. The processor
// stores in this order.
func (s *slot) post(frames []batch.Frame) {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(frames))), len(frames))
	for to := s.quads; len(words) > 0; to = to[unitWords:] {
		n := copy(to[1:unitWords], words)
		words = words[n:]
	}
	s.ring(uint32(len(frames)), (len(frames)+quadFrames-1)/quadFrames)
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
func (s *slot) finished() bool { return atomic.LoadUint32(s.done) == s.seq }

// copyResults copies the results of a finished chunk.
func (s *slot) copyResults(to []batch.Result) { copy(to, s.results) }
