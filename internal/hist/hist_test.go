package hist

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBucketsCoverEveryValueOnce(t *testing.T) {
	next := uint64(0)
	for i := range numBuckets {
		low, width := bounds(i)
		if low != next {
			t.Fatalf("bucket %d starts at %d, the previous one ends at %d", i, low, next)
		}
		for _, v := range []uint64{low, low + width/2, low + width - 1} {
			if got := index(v); got != i {
				t.Fatalf("value %d counts in bucket %d, want %d", v, got, i)
			}
		}
		next = low + width
	}
	if next != 1<<maxBits {
		t.Errorf("the buckets end at %d, want %d", next, uint64(1)<<maxBits)
	}
	if got := index(math.MaxUint64); got != numBuckets-1 {
		t.Errorf("the largest value counts in bucket %d, want the last, %d", got, numBuckets-1)
	}
}

func TestQuantilesAreExactToOnePercent(t *testing.T) {
	var h Histogram
	rnd := rand.New(rand.NewPCG(1, 2))
	values := make([]uint64, 100_000)
	for i := range values {
		values[i] = uint64(math.Exp(rnd.Float64() * 25))
		h.Record(values[i], 1)
	}
	slices.Sort(values)
	var s Snapshot
	h.AddTo(&s)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := values[min(max(int(math.Ceil(q*float64(len(values)))), 1), len(values))-1]
		got := s.Quantile(q)
		if diff := math.Abs(float64(got) - float64(want)); diff > 0.01*float64(want) {
			t.Errorf("quantile %v: got %d, want %d within 1 %%", q, got, want)
		}
	}
	var sum uint64
	for _, v := range values {
		sum += v
	}
	if s.Sum != sum || s.Count != uint64(len(values)) {
		t.Errorf("sum %d count %d, want %d and %d", s.Sum, s.Count, sum, len(values))
	}
}

func TestSubLeavesLaterValues(t *testing.T) {
	var h Histogram
	h.Record(1000, 5)
	var before, after Snapshot
	h.AddTo(&before)
	h.Record(2000, 3)
	h.AddTo(&after)
	after.Sub(&before)
	if after.Count != 3 || after.Sum != 6000 || after.CountBelow(1500) != 0 || after.CountBelow(2100) != 3 {
		t.Errorf("got count %d sum %d", after.Count, after.Sum)
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(12345, 1) }); n != 0 {
		t.Errorf("Record allocates %v times", n)
	}
}

func TestSnapshotsRecordAndAdd(t *testing.T) {
	var h Histogram
	var want, a, b Snapshot
	for i := range uint64(1000) {
		h.Record(i*i, 2)
		if i%2 == 0 {
			a.Record(i*i, 2)
		} else {
			b.Record(i*i, 2)
		}
	}
	h.AddTo(&want)
	if a.Add(&b); a != want {
		t.Errorf("count %d, sum %d; want %d, %d", a.Count, a.Sum, want.Count, want.Sum)
	}
}
