package gpulookup

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"sync"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup/device"
	"github.com/warproute/warproute/lookup/trie"
)

// family has the differences between IPv4 and IPv6.
type family struct {
	routes.Family
	bytes int    // per address in the first column
	lower bool   // a second column has the lower 64 bits
	look  string // launched kernel
	stay  string // resident kernel
}

const (
	lowerBytes = device.LowerBytes
	hopBytes   = device.HopBytes
)

var (
	ipv4 = family{routes.IPv4, device.AddressBytes4, false, device.Lookup4, "resident4"}
	ipv6 = family{routes.IPv6, device.AddressBytes6, true, device.Lookup6, "resident6"}
)

// workload is addresses in pinned columns with their expected next hops.
type workload struct {
	family
	name      string
	n         int // a multiple of smallChunk
	addresses *device.Pinned
	lowers    *device.Pinned // nil for IPv4
	want      []uint32       // next hops
}

// newWorkload allocates a workload of n addresses, rounded up, all zero.
func (b *bench) newWorkload(name string, n int) (*workload, error) {
	n = (n + smallChunk - 1) / smallChunk * smallChunk
	w := &workload{family: b.family, name: name, n: n, want: make([]uint32, n)}
	var err error
	if w.addresses, err = b.Pin(n * w.bytes); err != nil {
		return nil, err
	}
	if w.lower {
		w.lowers, err = b.Pin(n * lowerBytes)
	}
	return w, err
}

// put stores an address in the columns.
func (w *workload) put(i int, a netip.Addr) {
	if !w.lower {
		device.Put4(w.addresses.Bytes, i, a)
		return
	}
	device.Put6(w.addresses.Bytes, w.lowers.Bytes, i, a)
}

// key returns a stored address, first bit first.
func (w *workload) key(i int) (k trie.Key) {
	if !w.lower {
		binary.BigEndian.PutUint32(k[:], binary.NativeEndian.Uint32(w.addresses.Bytes[4*i:]))
		return k
	}
	binary.BigEndian.PutUint64(k[:8], binary.NativeEndian.Uint64(w.addresses.Bytes[8*i:]))
	binary.BigEndian.PutUint64(k[8:], binary.NativeEndian.Uint64(w.lowers.Bytes[8*i:]))
	return k
}

func (w *workload) addr(i int) netip.Addr {
	k := w.key(i)
	if !w.lower {
		return netip.AddrFrom4([4]byte(k[:4]))
	}
	return netip.AddrFrom16(k)
}

// check compares results with the expected next hops.
func (w *workload) check(hops []byte) error {
	return parallel(w.n, func(from, to int) error {
		for i := from; i < to; i++ {
			if got := binary.NativeEndian.Uint32(hops[hopBytes*i:]); got != w.want[i] {
				return fmt.Errorf("%v has next hop %d, want %d (number %d of %s)", w.addr(i), got, w.want[i], i, w.name)
			}
		}
		return nil
	})
}

// verified is the number of destinations per kind that are compared with the oracle.
const verified = 1 << 20

// draw generates a workload per kind of destinations.
func (b *bench) draw(kinds []string, n int) error {
	for _, kind := range kinds {
		w, err := b.newWorkload(kind, n)
		if err != nil {
			return err
		}
		b.loads = append(b.loads, w)
	}
	return parallel(len(b.loads), func(from, to int) error {
		for i := from; i < to; i++ {
			seq, err := b.Routes.Destinations(kinds[i], b.Seed+uint64(i))
			if err != nil {
				return err
			}
			at := 0
			for a := range seq {
				b.loads[i].put(at, a)
				if at++; at == b.loads[i].n {
					break
				}
			}
		}
		return nil
	})
}

// drawSamples generates the workload that is compared with the oracle: the edges of all prefixes,
// and the first destinations of each kind.
func (b *bench) drawSamples() error {
	var addrs []netip.Addr
	for a := range b.Routes.Edges() {
		addrs = append(addrs, a)
	}
	for _, w := range b.loads {
		for i := range min(w.n, verified) {
			addrs = append(addrs, w.addr(i))
		}
	}
	w, err := b.newWorkload("the samples", len(addrs))
	if err != nil {
		return err
	}
	for len(addrs) < w.n {
		addrs = append(addrs, addrs[0])
	}
	b.samples = w
	truth := oracle.NewRanges(b.Routes.All())
	return parallel(w.n, func(from, to int) error {
		for i := from; i < to; i++ {
			w.put(i, addrs[i])
			hop, _ := truth.Lookup(addrs[i]) // 0 without a route
			w.want[i] = uint32(hop)
		}
		return nil
	})
}

// expect compares the lookups in Go with the oracle, and uses them as expected next hops.
func (b *bench) expect(table *trie.Table) error {
	walk := func(w *workload, i int) uint32 {
		_, hop := table.Walk(w.key(i))
		return uint32(hop)
	}
	err := parallel(b.samples.n, func(from, to int) error {
		for i := from; i < to; i++ {
			if got, want := walk(b.samples, i), b.samples.want[i]; got != want {
				return fmt.Errorf("verify the table in Go: %v has next hop %d, want %d", b.samples.addr(i), got, want)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, w := range b.loads {
		err := parallel(w.n, func(from, to int) error {
			for i := from; i < to; i++ {
				w.want[i] = walk(w, i)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// poison fills results before a run: no lookup returns it, since it exceeds lookup.MaxNextHopID.
const poison = 0xff

// parallel runs f on parts of n items on all processors, and returns one of their errors.
func parallel(n int, f func(from, to int) error) error {
	var wg sync.WaitGroup
	parts := min(n, runtime.GOMAXPROCS(0))
	errs := make([]error, parts)
	for i := range parts {
		wg.Go(func() { errs[i] = f(n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
