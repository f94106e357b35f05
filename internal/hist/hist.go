// Package hist counts values in buckets that are at most 1 % wide.
//
// HdrHistogram has the same buckets, but must not be read while it is written.
// Here one goroutine records, with plain adds that are published atomically,
// and any number read, so that a packet worker can be watched while it runs.
package hist

import (
	"math/bits"
	"sync/atomic"
)

// Values below subBuckets have a bucket each; above, every power of two is cut
// into subBuckets/2 equal parts, so that a bucket's width is below 1/64 of its
// values and its middle within 0.8 % of each. Values of maxBits bits and more
// count as the largest.
const (
	subBits    = 7
	subBuckets = 1 << subBits
	half       = subBuckets / 2
	maxBits    = 40 // of nanoseconds: 18 minutes
	numBuckets = subBuckets + (maxBits-subBits)*half
)

// Histogram is written by one goroutine and may be read by others meanwhile.
// Its zero value is empty.
type Histogram struct {
	counts [numBuckets]uint64 // written by Record's goroutine alone
	sum    uint64
}

// Record counts a value n times. It neither allocates nor locks.
func (h *Histogram) Record(value, n uint64) {
	i := index(value)
	atomic.StoreUint64(&h.counts[i], h.counts[i]+n)
	atomic.StoreUint64(&h.sum, h.sum+value*n)
}

func index(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	if v >= 1<<maxBits {
		return numBuckets - 1
	}
	shift := bits.Len64(v) - subBits
	return subBuckets + (shift-1)*half + int(v>>shift) - half
}

// bounds returns the least value of a bucket and its width.
func bounds(i int) (low, width uint64) {
	if i < subBuckets {
		return uint64(i), 1
	}
	shift := (i-subBuckets)/half + 1
	sub := (i-subBuckets)%half + half
	return uint64(sub) << shift, 1 << shift
}

// Snapshot is what a Histogram held at some moment. Snapshots add up.
type Snapshot struct {
	counts [numBuckets]uint64
	Count  uint64
	Sum    uint64
}

// AddTo adds what the histogram holds to a snapshot.
func (h *Histogram) AddTo(s *Snapshot) {
	for i := range h.counts {
		n := atomic.LoadUint64(&h.counts[i])
		s.counts[i] += n
		s.Count += n
	}
	s.Sum += atomic.LoadUint64(&h.sum)
}

// Sub takes away an earlier snapshot of the same histograms.
func (s *Snapshot) Sub(earlier *Snapshot) {
	for i := range s.counts {
		s.counts[i] -= earlier.counts[i]
	}
	s.Count -= earlier.Count
	s.Sum -= earlier.Sum
}

// Quantile returns the value below or at which a share q of all values lies, to
// within 1 %, and 0 if there are none.
func (s *Snapshot) Quantile(q float64) uint64 {
	if s.Count == 0 {
		return 0
	}
	rank := uint64(q * float64(s.Count))
	if float64(rank) < q*float64(s.Count) {
		rank++
	}
	rank = min(max(rank, 1), s.Count)
	var seen uint64
	for i, n := range s.counts {
		if seen += n; seen >= rank {
			low, width := bounds(i)
			return low + width/2
		}
	}
	return 0
}

// CountBelow returns how many values were at most v, to the resolution of the buckets.
func (s *Snapshot) CountBelow(v uint64) uint64 {
	var n uint64
	for i := range index(v) + 1 {
		n += s.counts[i]
	}
	return n
}

// Mean returns the mean of all values, 0 if there are none.
func (s *Snapshot) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return float64(s.Sum) / float64(s.Count)
}
