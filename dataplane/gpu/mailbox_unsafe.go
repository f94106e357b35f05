package gpu

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/internal/ordered"
)

// Layout of a mailbox, as in mailbox.h, which explains it.
const (
	cacheLineWords  = 8 // 64-bit words of a descriptor cache line
	cacheLineFrames = 7
	batchFrames     = 28 // packets of a warp batch
	batchBytes      = 256

	doneBatches = 16  // batch i of these also reports batches i+16, i+32, ...
	doneBytes   = 256 // bytes of a slot in front of the results
	frameBytes  = 8

	inlineBatches    = 3  // batches that can have inlined headers
	headerWords      = 8  // a cache line
	shortHeaderWords = 4  //
	shortHeaderAt    = 12 // byte of the header at which a short header begins
	completionWords  = 4
	tagCount         = 0xffff
)

// Flags in the size word of a chunk. The size of stop ends the block.
const (
	inlineHeadersFlag      = 1 << 30
	hasJobsFlag            = 1 << 29
	inlineShortHeadersFlag = 1 << 28
	stopSize               = 1<<32 - 1
)

// mailbox is host memory through which a worker and its blocks on the GPU exchange chunks.
type mailbox struct {
	*hostmem.Memory
	slots          []slot
	slotBytes      int
	descriptorsAt  int
	headersAt      int
	shortHeadersAt int
	completionsAt  int
}

// slot holds one chunk in flight. The worker owns it. The worker reads the results of a batch when done
// has the sequence number, and a completion when it has the tag.
type slot struct {
	seq          uint32 // of the last chunk
	doneWords    int    // words of done in use
	inlined      int    // inlined headers: all packets or 0
	done         []uint32
	results      []batch.Result
	descriptors  []uint64
	headers      []header
	shortHeaders []shortHeader
	completions  []completion
	tagged       []uint64 // first words of headers, by lane
	tagRound     uint32   // times that tags wrapped
	flags        uint32   // of the last chunk

	// Progress of the last chunk.
	finishedWords, packet int    // done words whose batches are finished, and finished packets
	completed             uint32 // bits of the done words whose batches have inline completions
}

// Entries of a packet, by lane.
type (
	header      [headerWords]uint64
	shortHeader [shortHeaderWords]uint64
	completion  [completionWords]uint64
)

// newMailbox maps a mailbox for chunks of up to size packets.
func newMailbox(slots, size int) (*mailbox, error) {
	batches := (size + batchFrames - 1) / batchFrames
	results := (batches*batchFrames*frameBytes + batchBytes - 1) / batchBytes * batchBytes
	lanes := min(batches, inlineBatches) * batchBytes / 8
	m := &mailbox{descriptorsAt: doneBytes + results, headersAt: doneBytes + results + batches*batchBytes}
	m.shortHeadersAt = m.headersAt + 8*headerWords*lanes
	m.completionsAt = m.shortHeadersAt + 8*shortHeaderWords*lanes
	m.slotBytes = m.completionsAt + 8*completionWords*lanes
	var err error
	if m.Memory, err = hostmem.Map(slots * m.slotBytes); err != nil {
		return nil, fmt.Errorf("mailbox of %d chunks: %w", slots, err)
	}
	for i := range slots {
		b := m.Bytes[i*m.slotBytes : (i+1)*m.slotBytes]
		m.slots = append(m.slots, slot{
			done:         unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), doneBatches),
			results:      unsafe.Slice((*batch.Result)(unsafe.Pointer(&b[doneBytes])), batches*batchFrames),
			descriptors:  unsafe.Slice((*uint64)(unsafe.Pointer(&b[m.descriptorsAt])), batches*batchBytes/8),
			headers:      unsafe.Slice((*header)(unsafe.Pointer(&b[m.headersAt])), lanes),
			shortHeaders: unsafe.Slice((*shortHeader)(unsafe.Pointer(&b[m.shortHeadersAt])), lanes),
			completions:  unsafe.Slice((*completion)(unsafe.Pointer(&b[m.completionsAt])), lanes),
			tagged:       make([]uint64, lanes),
		})
	}
	return m, nil
}

// idle reports whether the GPU has finished all chunks.
func (m *mailbox) idle() bool {
	for i := range m.slots {
		if !m.slots[i].finished() {
			return false
		}
	}
	return true
}

// post passes a chunk to the slot's block. It inlines the headers from umem, unless umem is nil. flags
// are part of the size word.
func (s *slot) post(frames []batch.Frame, umem []byte, flags uint32) {
	size := uint32(len(frames)) | flags
	s.flags, s.inlined = flags, 0
	if umem != nil {
		if inline := s.inlineHeaders(frames, umem); inline != 0 {
			s.inlined = len(frames)
			size |= inline
		}
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(frames))), len(frames))
	for to := s.descriptors; len(words) > 0; to = to[cacheLineWords:] {
		n := copy(to[1:cacheLineWords], words)
		words = words[n:]
	}
	batches := (len(frames) + batchFrames - 1) / batchFrames
	s.doneWords = min(batches, doneBatches)
	s.ringDoorbell(size, batches)
}

// stop ends the slot's block.
func (s *slot) stop() { s.ringDoorbell(stopSize, 1) }

// ringDoorbell stores the sequence number and the size in each descriptor cache line, after the frames. The
// block polls the first cache line, which is stored last.
func (s *slot) ringDoorbell(size uint32, batches int) {
	s.seq++
	s.finishedWords, s.packet, s.completed = 0, 0, 0
	ordered.FillLines(&s.descriptors[0], 8*cacheLineWords, 4*batches, uint64(s.seq)|uint64(size)<<32)
}

// finished reports whether the GPU has finished the last chunk.
func (s *slot) finished() bool {
	for ; s.finishedWords < s.doneWords; s.finishedWords++ {
		end := (s.finishedWords + 1) * batchFrames
		if atomic.LoadUint32(&s.done[s.finishedWords]) == s.seq {
			s.packet = end
			continue
		}
		if !s.pollCompletions(min(end, s.inlined)) {
			return false
		}
		s.completed |= 1 << s.finishedWords
	}
	return true
}

// report stores the sequence number of a chunk in its done words, as a GPU does that has finished it.
func (s *slot) report(seq uint32) {
	for i := range s.doneWords {
		atomic.StoreUint32(&s.done[i], seq)
	}
}

// copyResults copies the results of a finished chunk, and clears them for the next chunk. Batches with
// inline completions have none.
func (s *slot) copyResults(to []batch.Result) { clear(s.results[:copy(to, s.results)]) }
