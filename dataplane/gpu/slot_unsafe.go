package gpu

import (
	"sync/atomic"
	"unsafe"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/internal/ordered"
)

// The tile header: packets (11 bits), packets of each batch but the last (5), worker (8), flags.
const (
	tilePackets      = 1 << 11
	tileBatchShift   = 11
	tileBatchPackets = 1 << 5
	tileWorkerShift  = 16
	tileWorkers      = 1 << 8

	inlineHeadersFlag      = 1 << 30
	hasJobsFlag            = 1 << 29
	findSAsFlag            = 1 << 27
	classifyFlag           = 1 << 26
	clampMSSFlag           = 1 << 25
	expectFlag             = 1 << 24
	seqFlag                = 1 << 31 // sequence numbers: see below
	inlineShortHeadersFlag = 1 << 28
)

// Flags of tiles about sequence numbers (kernel/seq_assign.h): seqFlag means something else with each.
const (
	assignSeqsFlags = seqFlag | classifyFlag // the device assigns sequence numbers to packets, and seals them
	seqRequestFlags = seqFlag                // alone: requests of the lender
)

// slot holds one tile in flight. Its block's owner uses it. The worker reads the results
// of a batch when done has the number of the tile, and a completion when it has the tag.
type slot struct {
	block        *blockState
	number       uint32 // of the last tile
	batches      int    // of the last tile
	each         int    // packets of its batches but the last
	inlined      int    // inlined headers: all packets or 0
	done         []uint32
	first        *uint32
	results      []batch.Result
	descriptors  []uint64
	jobs         []deviceJob
	headers      []header
	shortHeaders []shortHeader
	completions  []completion
	tagged       []uint64 // first words of headers, by descriptor word
	tagRound     uint32   // times that tags wrapped

	// Progress of the last tile.
	finishedBatches, packet int    // finished batches, and finished packets
	completed               uint32 // bits of the batches with inline completions
}

// Entries of a packet, by the index of its descriptor word.
type (
	header      [headerWords]uint64
	shortHeader [shortHeaderWords]uint64
	completion  [completionWords]uint64
)

// post passes a tile of a worker to the slot's block, with a number of packets per warp batch. It inlines
// the headers from umem, unless umem is nil. flags are part of the tile header.
func (s *slot) post(frames []batch.Frame, each int, worker uint32, umem []byte, flags uint32) {
	header := tileHeader(frames, each, worker, flags)
	s.write(frames, each)
	if umem != nil {
		if inline := s.inlineHeaders(frames, umem); inline != 0 {
			s.inlined = len(frames)
			header |= inline
		}
	}
	s.publish(header)
}

func tileHeader(frames []batch.Frame, each int, worker, flags uint32) uint32 {
	return uint32(len(frames)) | uint32(each)<<tileBatchShift | worker<<tileWorkerShift | flags
}

// write writes the descriptors of a tile, with a number of packets per warp batch.
func (s *slot) write(frames []batch.Frame, each int) {
	s.inlined, s.each = 0, each
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(frames))), len(frames))
	s.batches = 0
	for len(words) > 0 {
		to, in := s.descriptors[s.batches*batchBytes/8:], words[:min(each, len(words))]
		words = words[len(in):]
		for ; len(in) > 0; to = to[cacheLineWords:] {
			in = in[copy(to[1:cacheLineWords], in):]
		}
		s.batches++
	}
}

// postWith is post with more words for each warp batch: words returns them by the batch's first packet.
func (s *slot) postWith(frames []batch.Frame, each int, worker uint32, flags uint32, words func(first int) batchWords) {
	s.write(frames, each)
	var lines [linesPerBatch][maxBatches]uint64
	s.begin()
	number, header := uint64(s.number), tileHeader(frames, each, worker, flags)
	for b := range s.batches {
		w := words(b * each)
		for i, word := range [...]uint32{header, w.line1, w.line2, w.line3} {
			lines[i][b] = number | uint64(word)<<32
		}
	}
	for i := linesOf(each, flags) - 1; i >= 0; i-- {
		ordered.StoreLines(unsafe.Slice((*[batchBytes / 8]uint64)(unsafe.Pointer(&s.descriptors[i*cacheLineWords])), s.batches), lines[i][:s.batches])
	}
}

// publish stores the number of the tile and its header in each descriptor cache line in use, after the frames. A warp
// accepts its batch when all of these have the number. The first lines are stored last, as the warp with the first batch starts the block;
// a gateway's warps may begin later batches before that. So all else that the tile has in memory is stored before any line.
func (s *slot) publish(header uint32) {
	s.begin()
	for i := linesOf(s.each, header) - 1; i >= 0; i-- {
		ordered.FillLines(&s.descriptors[i*cacheLineWords], batchBytes, s.batches, uint64(s.number)|uint64(header)<<32)
	}
}

// linesOf returns the number of cache lines in use of a warp batch of up to a number of packets. descriptor_lanes in kernel/warp_batch.h must match.
func linesOf(each int, flags uint32) int {
	if each > halfBatch || flags&expectFlag != 0 {
		return linesPerBatch
	}
	return linesPerBatch / 2
}

// begin begins the next tile of the slot's block.
func (s *slot) begin() {
	s.block.last++
	s.number = s.block.last
	s.finishedBatches, s.packet, s.completed = 0, 0, 0
	if s.number == 0 {
		s.renumber()
	}
}

// renumber overwrites the numbers in done words and descriptor cache lines before tile 0 is posted. Those that no tile has used have 0,
// and would pass for that tile.
func (s *slot) renumber() {
	const none = 1<<32 - 1
	for i := range s.done {
		atomic.StoreUint32(&s.done[i], none)
	}
	for i := 0; i < len(s.descriptors); i += cacheLineWords {
		atomic.StoreUint64(&s.descriptors[i], none)
	}
}

// finished reports whether the GPU has finished the last tile.
func (s *slot) finished() bool {
	for ; s.finishedBatches < s.batches; s.finishedBatches++ {
		end := (s.finishedBatches + 1) * s.each
		if atomic.LoadUint32(&s.done[s.finishedBatches]) == s.number {
			s.packet = end
			continue
		}
		if !s.pollCompletions(min(end, s.inlined)) {
			return false
		}
		s.completed |= 1 << s.finishedBatches
	}
	return true
}

// saReports returns the reports about the packets of a tile that was posted without jobs: they are where jobs are otherwise.
func (s *slot) saReports() []esp.SAReport {
	return unsafe.Slice((*esp.SAReport)(unsafe.Pointer(&s.jobs[0])), len(s.jobs))
}

// requests returns the requests of a tile (lender.ask): they are where jobs are otherwise.
func (s *slot) requests() []seqRequest {
	return unsafe.Slice((*seqRequest)(unsafe.Pointer(&s.jobs[0])), len(s.jobs))
}

// answers returns the answers to requests (lender.ask), in place of results.
func (s *slot) answers() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(&s.results[0])), len(s.results))
}

// report stores the number of the last tile in its done words, as a GPU does that has finished it.
func (s *slot) report() {
	for i := range s.batches {
		atomic.StoreUint32(&s.done[i], s.number)
	}
}

// copyResults copies the results of a finished tile, and clears them for the next tile. Batches with
// inline completions have none.
func (s *slot) copyResults(to []batch.Result) { clear(s.results[:copy(to, s.results)]) }
