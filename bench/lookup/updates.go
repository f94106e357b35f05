package lookup

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/lookup"
)

// Updates are the latencies and rates of changes of a loaded table.
type Updates struct {
	Insert  *Latency `json:"insert,omitempty"`
	Delete  *Latency `json:"delete,omitempty"`
	Replace *Latency `json:"replace,omitempty"`
	Alone   float64  `json:"updates_per_second"` // without a reader; equal numbers of deletes, inserts and replacements
	Reading *Reading `json:"while_reading,omitempty"`
}

// Latency is the latency of single updates in nanoseconds, including the clock read.
type Latency struct {
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
	Max int64 `json:"max_ns"`
}

// Reading is the rates of an updater and a concurrent reader on another core. Lookup rates
// are in millions per second.
type Reading struct {
	Updates     float64 `json:"updates_per_second"`
	Reader      float64 `json:"reader_mlookups"`
	ReaderAlone float64 `json:"reader_alone_mlookups"`
}

// maxSingles is the maximum number of individually timed updates of each kind. The time
// limit is that of all rounds.
const maxSingles = 100_000

// update measures updates of a table. The table has the same routes afterwards.
func (b *bench[A]) update(t table[A], live bool) (*Updates, error) {
	u := new(Updates)
	if err := b.single(t, u); err != nil {
		return nil, err
	}
	rounds := func(f func() error) error {
		for range b.Rounds {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	var alone, concurrent, reader, readerAlone []float64
	err := rounds(func() error {
		rate, err := b.sustain(t)
		alone = append(alone, rate)
		return err
	})
	if err != nil {
		return nil, err
	}
	u.Alone = medianOf(alone)
	if !live || b.readerCore == b.core {
		return u, nil
	}
	err = rounds(func() error {
		stop, err := b.read(t)
		if err != nil {
			return err
		}
		time.Sleep(b.Duration)
		readerAlone = append(readerAlone, stop())
		if stop, err = b.read(t); err != nil {
			return err
		}
		rate, err := b.sustain(t)
		concurrent, reader = append(concurrent, rate), append(reader, stop())
		return err
	})
	u.Reading = &Reading{Updates: medianOf(concurrent), Reader: medianOf(reader), ReaderAlone: medianOf(readerAlone)}
	return u, err
}

// medianOf returns the median of values in any order.
func medianOf(values []float64) float64 { return median(slices.Sorted(slices.Values(values))) }

// other returns a next hop that differs from nh.
func other(nh lookup.NextHopID) lookup.NextHopID { return nh + 1 }

// single measures the latencies of updates.
func (b *bench[A]) single(t table[A], u *Updates) error {
	var times [3][]int64
	for i := range times {
		times[i] = make([]int64, 0, maxSingles)
	}
	limit := time.Now().Add(time.Duration(b.Rounds) * b.Duration)
	for i, t3 := 0, time.Now(); i < maxSingles && (i == 0 || t3.Before(limit)); i++ {
		n := b.order[i%len(b.order)]
		p, nh := b.Routes.Prefixes[n], b.Routes.Hops[n]
		t0 := time.Now()
		found := t.Delete(p)
		t1 := time.Now()
		err1 := t.Insert(p, other(nh))
		t2 := time.Now()
		err2 := t.Insert(p, nh)
		t3 = time.Now()
		if !found || err1 != nil || err2 != nil {
			return fmt.Errorf("delete %v: found %v; insert it: %v; replace it: %v", p, found, err1, err2)
		}
		times[0] = append(times[0], t1.Sub(t0).Nanoseconds())
		times[1] = append(times[1], t2.Sub(t1).Nanoseconds())
		times[2] = append(times[2], t3.Sub(t2).Nanoseconds())
	}
	u.Delete, u.Insert, u.Replace = latency(times[0]), latency(times[1]), latency(times[2])
	return nil
}

// latency returns the percentiles of latencies in nanoseconds, and sorts them.
func latency(ns []int64) *Latency {
	slices.Sort(ns)
	n := len(ns)
	return &Latency{P50: ns[n/2], P99: ns[n*99/100], Max: ns[n-1]}
}

// sustain returns the rate of updates per second. It is the equivalent of update in peer.c.
func (b *bench[A]) sustain(t table[A]) (rate float64, err error) {
	updates, start := 0, time.Now()
	var took time.Duration
	for at := 0; took < b.Duration; took = time.Since(start) {
		for range 64 {
			n := b.order[at%len(b.order)]
			at++
			p, nh := b.Routes.Prefixes[n], b.Routes.Hops[n]
			found := t.Delete(p)
			err1, err2 := t.Insert(p, other(nh)), t.Insert(p, nh)
			if !found || err1 != nil || err2 != nil {
				return 0, fmt.Errorf("delete %v: found %v; insert it: %v; replace it: %v", p, found, err1, err2)
			}
			updates += 3
		}
	}
	return float64(updates) / took.Seconds(), nil
}

// read looks up on another core until stop, which returns the rate in millions of lookups
// per second.
func (b *bench[A]) read(t table[A]) (stop func() (rate float64), err error) {
	kind := max(0, slices.Index(b.Destinations, "table"))
	started, rate, halt := make(chan error), make(chan float64), new(atomic.Bool)
	go func() {
		restore, err := affinity.Pin(b.readerCore)
		started <- err
		if err != nil {
			return
		}
		defer restore()
		const batch, stride = 64, 4096 // stride: addresses between two loads of halt
		var dst [batch]lookup.NextHopID
		addrs, at, lookups, start := b.addrs[kind], 0, 0, time.Now()
		for !halt.Load() {
			if at+stride > len(addrs) {
				at = 0
			}
			for end := at + stride; at < end; at += batch {
				t.LookupBatch(dst[:], addrs[at:at+batch])
			}
			lookups += stride
		}
		rate <- float64(lookups) / time.Since(start).Seconds() / 1e6
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() float64 { halt.Store(true); return <-rate }, nil
}
