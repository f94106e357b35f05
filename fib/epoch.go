package fib

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
)

// Reader protects the entries that a worker's engine can still read: the indices of entries
// freed since its oldest chunk in flight was submitted are not reused. The worker records the
// epoch (Now) of each chunk before submitting it, and holds that of the oldest: one store per
// chunk.
type Reader struct {
	since atomic.Uint64 // held epoch, or idle
	epoch *atomic.Uint64
	_     [48]byte // a cache line of its own
}

const idle = math.MaxUint64

// Now returns the current epoch.
func (r *Reader) Now() uint64 { return r.epoch.Load() }

// Hold sets the epoch of the oldest chunk in flight.
func (r *Reader) Hold(epoch uint64) { r.since.Store(epoch) }

// Release marks the reader idle.
func (r *Reader) Release() { r.since.Store(idle) }

// NewReader registers an idle reader.
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

// oldest returns the oldest held epoch.
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

// ids allocates the indices of one array. It belongs to the writer.
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
	epoch uint64 // readers of this epoch or later cannot read the entry
}

// alloc returns an index that no reader can read, or ErrFull.
func (s *ids) alloc() (uint32, error) {
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

// cancel frees an allocated index that no reader has seen.
func (s *ids) cancel(id uint32) { s.reusable = append(s.reusable, id) }

// free retires an index that readers can still use.
func (s *ids) free(id uint32) {
	s.retired = append(s.retired, retired{id, s.readers.epoch.Add(1)})
}

// Passed returns a function that reports whether every reader has finished the chunks in flight
// at the call of Passed. Any goroutine may call it.
func (f *FIB) Passed() func() bool {
	epoch := f.readers.epoch.Add(1)
	return func() bool { return f.readers.oldest() >= epoch }
}
