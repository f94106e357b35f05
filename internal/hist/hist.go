// Package hist is a histogram with buckets at most 1 % wide.
//
// One goroutine records and any number read at the same time, without locks: this is what
// HdrHistogram, whose buckets are the same, does not support.
package hist

import (
	"math/bits"
	"sync/atomic"
)

// Each value below subBuckets has a bucket; above, each power of two has subBuckets/2 buckets of
// equal width, less than 1/64 of their values: the middle is within 0.8 % of each value. Values of
// more than maxBits bits go to the last bucket.
const (
	subBits    = 7
	subBuckets = 1 << subBits
	half       = subBuckets / 2
	maxBits    = 40 // 18 minutes in nanoseconds
	numBuckets = subBuckets + (maxBits-subBits)*half
)

// Histogram has one writer and any number of concurrent readers. The zero value is empty.
type Histogram struct {
	counts [numBuckets]uint64 // written by the goroutine that calls Record
	sum    uint64
}

// Record counts a value n times.
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

// bounds returns the smallest value of a bucket and its width.
func bounds(i int) (low, width uint64) {
	if i < subBuckets {
		return uint64(i), 1
	}
	shift := (i-subBuckets)/half + 1
	sub := (i-subBuckets)%half + half
	return uint64(sub) << shift, 1 << shift
}

// Snapshot is a copy of one Histogram or the sum of several.
type Snapshot struct {
	counts [numBuckets]uint64
	Count  uint64
	Sum    uint64
}

// AddTo adds the histogram to a snapshot.
func (h *Histogram) AddTo(s *Snapshot) {
	for i := range h.counts {
		n := atomic.LoadUint64(&h.counts[i])
		s.counts[i] += n
		s.Count += n
	}
	s.Sum += atomic.LoadUint64(&h.sum)
}

// Record counts a value n times. Unlike a Histogram, a snapshot has one user at a time.
func (s *Snapshot) Record(value, n uint64) {
	s.counts[index(value)] += n
	s.Count += n
	s.Sum += value * n
}

// Add adds another snapshot.
func (s *Snapshot) Add(other *Snapshot) {
	for i, n := range other.counts {
		s.counts[i] += n
	}
	s.Count += other.Count
	s.Sum += other.Sum
}

// Sub subtracts an earlier snapshot of the same histograms.
func (s *Snapshot) Sub(earlier *Snapshot) {
	for i := range s.counts {
		s.counts[i] -= earlier.counts[i]
	}
	s.Count -= earlier.Count
	s.Sum -= earlier.Sum
}

// Quantile returns the q-quantile within 1 %, 0 if the snapshot is empty.
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

// CountBelow returns the number of values up to v, within the width of a bucket.
func (s *Snapshot) CountBelow(v uint64) uint64 {
	var n uint64
	for i := range index(v) + 1 {
		n += s.counts[i]
	}
	return n
}

// Mean returns the mean of all values, 0 if the snapshot is empty.
func (s *Snapshot) Mean() float64 {
	if s.Count == 0 {
		return 0
	}
	return float64(s.Sum) / float64(s.Count)
}
