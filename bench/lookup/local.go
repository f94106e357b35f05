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

// table is a lookup table in this process.
type table[A addr] interface {
	Load(iter.Seq2[netip.Prefix, lookup.NextHopID]) error
	Insert(netip.Prefix, lookup.NextHopID) error
	Delete(netip.Prefix) bool
	LookupBatch(dst []lookup.NextHopID, src []A)
}

// local describes a measured table in this process.
type local[A addr] struct {
	name    string
	peer    string   // its name in Peers; "" for the router's table
	live    bool     // supports concurrent readers
	kernels []string // arguments of its Use method, fastest first; none without Use
	new     func() table[A]
	batches func(t table[A], dst []lookup.NextHopID, src []A) lookup.NextHopID // nil: interfaceBatches
	// bytes returns the table's resident memory outside the heap; nil for none.
	bytes func(table[A]) uint64
}

func ipv4Family() family[uint32] {
	return family[uint32]{
		bytes: 4, from: from4, netip: netip4, encode: encode4, program: rteFIB,
		locals: []local[uint32]{
			{
				name: "warproute", live: true, kernels: ipv4.Kernels(),
				new: func() table[uint32] { return ipv4.New() }, batches: ipv4Batches,
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
				name: "warproute", live: true, kernels: ipv6.Kernels(),
				new: func() table[[16]byte] { return ipv6.New() }, batches: ipv6Batches,
				bytes: func(t table[[16]byte]) uint64 { return uint64(t.(*ipv6.Table).Bytes()) },
			},
			{name: "bart.Fast", peer: "bart", new: func() table[[16]byte] { return &bartTable[[16]byte]{addr: netip.AddrFrom16} }},
		},
	}
}

// loadRounds is the number of timed loads; the median is reported.
const loadRounds = 3

// newLocal creates and loads a table.
func (b *bench[A]) newLocal(l local[A]) (*contender, error) {
	c := &contender{table: &Table{Name: l.name}, close: func() {}}
	var t table[A]
	var times []float64
	for range loadRounds {
		t = nil // lets heapBytes collect the previous table
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
	c.verify = func() error { return b.verifyLocal(t, l.kernels) }
	c.updates = func() (*Updates, error) {
		if len(l.kernels) > 0 { // fastest first
			if err := use(t, l.kernels[0]); err != nil {
				return nil, err
			}
		}
		return b.update(t, l.live)
	}
	if len(l.kernels) == 0 {
		c.variants = []variant{{name: l.name, measure: b.measurer(t, l.batches)}}
	}
	for _, kernel := range l.kernels {
		if !b.measures(kernel) {
			continue
		}
		measure := b.measurer(t, l.batches)
		c.variants = append(c.variants, variant{name: l.name + " " + kernel, measure: func(kind, batch int, d time.Duration) (int, time.Duration, error) {
			if err := use(t, kernel); err != nil {
				return 0, 0, err
			}
			return measure(kind, batch, d)
		}})
	}
	return c, nil
}

// use selects a kernel of a table.
func use[A addr](t table[A], kernel string) error {
	u, ok := t.(interface{ Use(string) error })
	if !ok {
		return fmt.Errorf("kernel %s: the table has only one kernel", kernel)
	}
	return u.Use(kernel)
}

// heapBytes collects garbage and returns the size of the live heap.
func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// verifyLocal verifies all queries with every kernel and batch size.
func (b *bench[A]) verifyLocal(t table[A], kernels []string) error {
	if len(kernels) == 0 {
		return b.verifyBatches(t)
	}
	for _, kernel := range kernels {
		if err := use(t, kernel); err != nil {
			return err
		}
		if err := b.verifyBatches(t); err != nil {
			return fmt.Errorf("kernel %s: %w", kernel, err)
		}
	}
	return nil
}

func (b *bench[A]) verifyBatches(t table[A]) error {
	got := make([]lookup.NextHopID, len(b.queries))
	for _, batch := range b.Batches {
		clear(got)
		for i := 0; i < len(got); i += batch {
			end := min(i+batch, len(got))
			t.LookupBatch(got[i:end], b.queries[i:end])
		}
		if err := b.check(got); err != nil {
			return fmt.Errorf("batches of %d: %w", batch, err)
		}
	}
	return nil
}

// measurer returns a function that looks up destinations in batches for at least d. It is
// the equivalent of look in peer.c.
func (b *bench[A]) measurer(t table[A], batches func(table[A], []lookup.NextHopID, []A) lookup.NextHopID) func(kind, batch int, d time.Duration) (int, time.Duration, error) {
	if batches == nil {
		batches = interfaceBatches[A]
	}
	dst := make([]lookup.NextHopID, MaxBatch)
	return func(kind, batch int, d time.Duration) (lookups int, took time.Duration, err error) {
		addrs, dst := b.addrs[kind], dst[:batch]
		var sum lookup.NextHopID
		stride, at, start := step/batch*batch, 0, time.Now()
		for took < d {
			if at+stride > len(addrs) {
				at = 0
			}
			sum += batches(t, dst, addrs[at:at+stride])
			at += stride
			lookups += stride
			took = time.Since(start)
		}
		runtime.KeepAlive(sum)
		return lookups, took, nil
	}
}

// interfaceBatches looks up src in batches as long as dst and returns the sum of the last next
// hops of all batches. The length of src is a multiple of that of dst.
func interfaceBatches[A addr](t table[A], dst []lookup.NextHopID, src []A) (sum lookup.NextHopID) {
	for at := 0; at < len(src); at += len(dst) {
		t.LookupBatch(dst, src[at:at+len(dst)])
		sum += dst[len(dst)-1]
	}
	return sum
}

// ipv4Batches is interfaceBatches with one direct call per batch, as in a router's worker.
func ipv4Batches(of table[uint32], dst []lookup.NextHopID, src []uint32) (sum lookup.NextHopID) {
	t := of.(*ipv4.Table)
	for last := &dst[len(dst)-1]; len(src) >= len(dst); src = src[len(dst):] {
		t.LookupBatch(dst, src[:len(dst)])
		sum += *last
	}
	return sum
}

// ipv6Batches is interfaceBatches with direct calls.
func ipv6Batches(of table[[16]byte], dst []lookup.NextHopID, src [][16]byte) (sum lookup.NextHopID) {
	t := of.(*ipv6.Table)
	for last := &dst[len(dst)-1]; len(src) >= len(dst); src = src[len(dst):] {
		t.LookupBatch(dst, src[:len(dst)])
		sum += *last
	}
	return sum
}

// bartTable is bart's fastest table. It looks up one address at a time and does not
// support readers during changes.
type bartTable[A addr] struct {
	bart.Fast[lookup.NextHopID]
	addr func(A) netip.Addr
}

func (t *bartTable[A]) Load(seq iter.Seq2[netip.Prefix, lookup.NextHopID]) error {
	for p, nh := range seq {
		t.Fast.Insert(p, nh)
	}
	return nil
}

func (t *bartTable[A]) Insert(p netip.Prefix, nh lookup.NextHopID) error {
	t.Fast.Insert(p, nh)
	return nil
}

func (t *bartTable[A]) Delete(p netip.Prefix) bool {
	t.Fast.Delete(p)
	return true
}

func (t *bartTable[A]) LookupBatch(dst []lookup.NextHopID, src []A) {
	for i, a := range src {
		dst[i], _ = t.Fast.Lookup(t.addr(a))
	}
}
