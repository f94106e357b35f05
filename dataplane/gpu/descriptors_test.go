package gpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
)

// numbers returns the tile numbers in the cache lines of a slot's batch.
func (s *slot) numbers(batch int) (n [linesPerBatch]uint32) {
	for i := range n {
		n[i] = uint32(s.descriptors[batch*batchBytes/8+i*cacheLineWords])
	}
	return n
}

// TestTilesUseFewCacheLines: two per batch if these have room for its packets and words. The device reads only them.
func TestTilesUseFewCacheLines(t *testing.T) {
	m, _ := newTestMailbox(t, 1, 4*batchFrames)
	s, frames := &m.slots[0], make([]batch.Frame, 2*batchFrames)
	full := [linesPerBatch]uint32{}
	for _, c := range []struct {
		each  int
		flags uint32
		lines int
	}{{28, 0, 4}, {14, 0, 2}, {15, hasJobsFlag, 4}, {1, hasJobsFlag, 2}, {14, expectFlag, 4}, {14, assignSeqsFlags, 2}, {15, assignSeqsFlags, 4}} {
		in := frames[:2*c.each]
		if c.flags == expectFlag || c.flags == assignSeqsFlags {
			s.postWith(in, c.each, 0, c.flags, func(int) batchWords { return batchWords{1, 2, 3} })
		} else {
			s.post(in, c.each, 0, nil, c.flags)
		}
		want := full
		for i := range c.lines {
			want[i] = s.number
		}
		if c.lines == linesPerBatch {
			full = want
		}
		for b := range 2 {
			if got := s.numbers(b); got != want {
				t.Errorf("batches of %d packets, flags %#x: tiles %d in the cache lines of batch %d, want %d", c.each, c.flags, got, b, want)
			}
		}
		s.report()
	}
}

// TestTileNumbersWrap: memory that no tile has used has number 0, and is not that of the tile with number 0.
func TestTileNumbersWrap(t *testing.T) {
	for each := 1; each <= batchFrames; each++ {
		m, _ := newTestMailbox(t, 1, 4*batchFrames)
		s := &m.slots[0]
		s.block.last = 1<<32 - 2
		for _, n := range []int{1, 4} { // batches
			s.post(make([]batch.Frame, n*each), each, 0, nil, hasJobsFlag)
			for b := range n {
				if s.finished() {
					t.Fatalf("tile %d of %d batches is finished when the device has reported %d", s.number, n, b)
				}
				s.done[b] = s.number
			}
			if unused := s.numbers(3)[linesPerBatch-1]; s.number == 0 && linesOf(each, 0) < linesPerBatch && unused == 0 {
				t.Errorf("cache lines that tile 0 does not use have its number")
			}
			if !s.finished() {
				t.Fatalf("tile %d is not finished", s.number)
			}
		}
	}
}
