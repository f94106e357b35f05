package fib

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Reader is one worker's claim on what its engine may still be reading: entries
// that were freed since the oldest chunk under way was submitted keep their
// numbers. The worker notes the epoch (Now) of each chunk before it submits it,
// and holds the epoch of the oldest. That costs one store a chunk.
type Reader struct {
	since atomic.Uint64 // the epoch that is held, or idle
	epoch *atomic.Uint64
	_     [48]byte // a cache line of its own
}

const idle = math.MaxUint64

// Now is the present epoch.
func (r *Reader) Now() uint64 { return r.epoch.Load() }

// Hold says that of all that is being read, the oldest was begun at this epoch.
func (r *Reader) Hold(epoch uint64) { r.since.Store(epoch) }

// Release says that nothing is being read.
func (r *Reader) Release() { r.since.Store(idle) }

// NewReader registers a reader, idle at first.
func (f *FIB) NewReader() *Reader {
	r := &Reader{epoch: &f.readers.epoch}
	r.Release()
	f.readers.mu.Lock()
	f.readers.all = append(f.readers.all, r)
	f.readers.mu.Unlock()
	return r
}

type readers struct {
	epoch atomic.Uint64
	mu    sync.Mutex // guards all
	all   []*Reader
}

// oldest is the epoch before which nobody reads any more.
func (r *readers) oldest() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	min := uint64(idle)
	for _, reader := range r.all {
		if s := reader.since.Load(); s < min {
			min = s
		}
	}
	return min
}

// ids hands out entry numbers of one array. It belongs to the writer.
type ids struct {
	next, limit uint32
	of          string
	readers     *readers
	followers   *followers
	reusable    []uint32
	retired     []retired // oldest first
}

type retired struct {
	id    uint32
	epoch uint64 // readers that began at this epoch or later cannot know the id
}

func (s *ids) take() (uint32, error) {
	if len(s.reusable) == 0 && len(s.retired) > 0 {
		oldest, n := s.readers.oldest(), 0
		for n < len(s.retired) && s.retired[n].epoch <= oldest {
			s.reusable = append(s.reusable, s.retired[n].id)
			n++
		}
		s.retired = s.retired[n:]
	}
	if n := len(s.reusable); n > 0 {
		s.followers.reuse()
		id := s.reusable[n-1]
		s.reusable = s.reusable[:n-1]
		return id, nil
	}
	if s.next == s.limit {
		return 0, fmt.Errorf("%w: all %d %s are in use", ErrFull, s.limit, s.of)
	}
	s.next++
	return s.next - 1, nil
}

// untake gives back a number that no reader has seen.
func (s *ids) untake(id uint32) { s.reusable = append(s.reusable, id) }

// free gives back a number that readers may still hold.
func (s *ids) free(id uint32) {
	s.retired = append(s.retired, retired{id, s.readers.epoch.Add(1)})
}

// Passed returns a function that tells whether every reader has finished what it had
// begun when Passed was called: nobody can know of what was taken out of its sight
// before. It may be called by any goroutine.
func (f *FIB) Passed() func() bool {
	epoch := f.readers.epoch.Add(1)
	return func() bool { return f.readers.oldest() >= epoch }
}
