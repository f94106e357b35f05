package lookup

import (
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/gaissmai/bart"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv4"
	"github.com/warproute/warproute/lookup/ipv6"
)

// table is a table in this process.
type table[A addr] interface {
	Load(iter.Seq2[netip.Prefix, lookup.NextHop]) error
	Insert(netip.Prefix, lookup.NextHop) error
	Delete(netip.Prefix) bool
	LookupBatch(dst []lookup.NextHop, src []A)
}

// local is a row of the tables that are measured.
type local[A addr] struct {
	name string
	peer string   // the one of Peers that it is, "" if it is ours
	live bool     // may be read while it is changed
	ways []string // to look up, best first, for its method Use(string) error; none if there is one
	new  func() table[A]
	// bytes is the memory that a table keeps resident beside the heap, whose growth
	// is measured; nil for none.
	bytes func(table[A]) uint64
}

func ipv4Family() family[uint32] {
	return family[uint32]{
		bytes: 4, from: from4, netip: netip4, encode: encode4, program: rteFIB,
		locals: []local[uint32]{
			{
				name: "warproute", live: true, ways: ipv4.Kernels(),
				new:   func() table[uint32] { return ipv4.New() },
				bytes: func(t table[uint32]) uint64 { return uint64(t.(*ipv4.Table).Bytes()) },
			},
			{name: "bart.Fast", peer: "bart", new: func() table[uint32] { return &bartTable[uint32]{addr: netip4} }},
		},
	}
}

func ipv6Family() family[[16]byte] {
	return family[[16]byte]{
		bytes: 16, from: netip.Addr.As16, netip: netip.AddrFrom16, encode: encode6, program: rteFIB6,
		locals: []local[[16]byte]{
			{
				name: "warproute", live: true, ways: ipv6.Kernels(),
				new:   func() table[[16]byte] { return ipv6.New() },
				bytes: func(t table[[16]byte]) uint64 { return uint64(t.(*ipv6.Table).Bytes()) },
			},
			{name: "bart.Fast", peer: "bart", new: func() table[[16]byte] { return &bartTable[[16]byte]{addr: netip.AddrFrom16} }},
		},
	}
}

// loads is how often a table is filled; the median of the times counts.
const loads = 3

// newLocal fills a table.
func (b *bench[A]) newLocal(l local[A]) (*contender, error) {
	c := &contender{table: &Table{Name: l.name}, close: func() {}}
	var t table[A]
	var times []float64
	for range loads {
		t = nil // so that the collector finds the one before
		before := heapBytes()
		t = l.new()
		start := time.Now()
		if err := t.Load(b.Routes.All()); err != nil {
			return nil, fmt.Errorf("load %d routes: %w", b.Routes.Len(), err)
		}
		times = append(times, time.Since(start).Seconds())
		c.table.Bytes = max(before, heapBytes()) - before
	}
	if l.bytes != nil {
		c.table.Bytes += l.bytes(t)
	}
	slices.Sort(times)
	c.table.Load = median(times)
	c.verify = func() error { return b.verifyLocal(t, l.ways) }
	c.updates = func() (*Updates, error) {
		if len(l.ways) > 0 { // the best comes first
			if err := use(t, l.ways[0]); err != nil {
				return nil, err
			}
		}
		return b.update(t, l.live)
	}
	if len(l.ways) == 0 {
		c.lanes = []lane{{name: l.name, look: b.looker(t)}}
	}
	for _, way := range l.ways {
		look := b.looker(t)
		c.lanes = append(c.lanes, lane{name: l.name + " " + way, look: func(kind, batch int, d time.Duration) (int, time.Duration, error) {
			if err := use(t, way); err != nil {
				return 0, 0, err
			}
			return look(kind, batch, d)
		}})
	}
	return c, nil
}

func use[A addr](t table[A], way string) error {
	u, ok := t.(interface{ Use(string) error })
	if !ok {
		return fmt.Errorf("look up by %s: the table knows one way alone", way)
	}
	return u.Use(way)
}

// heapBytes is how much of the heap is in use.
func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// verifyLocal asks all questions in batches of every size, in every way.
func (b *bench[A]) verifyLocal(t table[A], ways []string) error {
	if len(ways) == 0 {
		return b.verifyBatches(t)
	}
	for _, way := range ways {
		if err := use(t, way); err != nil {
			return err
		}
		if err := b.verifyBatches(t); err != nil {
			return fmt.Errorf("by %s: %w", way, err)
		}
	}
	return nil
}

func (b *bench[A]) verifyBatches(t table[A]) error {
	got := make([]lookup.NextHop, len(b.questions))
	for _, batch := range b.Batches {
		clear(got)
		for i := 0; i < len(got); i += batch {
			end := min(i+batch, len(got))
			t.LookupBatch(got[i:end], b.questions[i:end])
		}
		if err := b.check(got); err != nil {
			return fmt.Errorf("batches of %d: %w", batch, err)
		}
	}
	return nil
}

// looker returns a function that looks destinations up: the twin of peer.c's look.
// Of every batch the last answer is used, in both.
func (b *bench[A]) looker(t table[A]) func(kind, batch int, d time.Duration) (int, time.Duration, error) {
	dst := make([]lookup.NextHop, MaxBatch)
	return func(kind, batch int, d time.Duration) (lookups int, took time.Duration, err error) {
		addrs, dst := b.addrs[kind], dst[:batch]
		var sum lookup.NextHop
		stride, at, start := step/batch*batch, 0, time.Now()
		for took < d {
			if at+stride > len(addrs) {
				at = 0
			}
			for end := at + stride; at < end; at += batch {
				t.LookupBatch(dst, addrs[at:at+batch])
				sum += dst[batch-1]
			}
			lookups += stride
			took = time.Since(start)
		}
		runtime.KeepAlive(sum)
		return lookups, took, nil
	}
}

// bartTable is bart's fastest table, which looks up one address at a time and
// must not be read while it is changed.
type bartTable[A addr] struct {
	bart.Fast[lookup.NextHop]
	addr func(A) netip.Addr
}

func (t *bartTable[A]) Load(seq iter.Seq2[netip.Prefix, lookup.NextHop]) error {
	for p, nh := range seq {
		t.Fast.Insert(p, nh)
	}
	return nil
}

func (t *bartTable[A]) Insert(p netip.Prefix, nh lookup.NextHop) error {
	t.Fast.Insert(p, nh)
	return nil
}

func (t *bartTable[A]) Delete(p netip.Prefix) bool {
	t.Fast.Delete(p)
	return true
}

func (t *bartTable[A]) LookupBatch(dst []lookup.NextHop, src []A) {
	for i, a := range src {
		dst[i], _ = t.Fast.Lookup(t.addr(a))
	}
}
