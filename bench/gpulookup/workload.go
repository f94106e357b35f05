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

// family is what differs between the two.
type family struct {
	routes.Family
	bytes int    // of an address in the column that is always read
	lower bool   // whether there is a column of the lower 64 bits
	look  string // the launched kernel
	stay  string // the resident one
}

const (
	lowerBytes = device.LowerBytes
	hopBytes   = device.HopBytes
)

var (
	ipv4 = family{routes.IPv4, device.AddressBytes4, false, device.Lookup4, "resident4"}
	ipv6 = family{routes.IPv6, device.AddressBytes6, true, device.Lookup6, "resident6"}
)

// workload is addresses in columns, in pinned memory, and what they are to give.
type workload struct {
	family
	name      string
	n         int // a multiple of smallChunk
	addresses *device.Pinned
	lowers    *device.Pinned // nil for IPv4
	want      []uint32       // next hops
}

// newWorkload has room for n addresses, rounded up; it is full of zeros.
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

// put puts an address into the columns.
func (w *workload) put(i int, a netip.Addr) {
	if !w.lower {
		device.Put4(w.addresses.Bytes, i, a)
		return
	}
	device.Put6(w.addresses.Bytes, w.lowers.Bytes, i, a)
}

// key is what put has put, first bit in front.
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

// check compares results with what they should be.
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

// verified is how many destinations of each kind are verified with the oracle.
const verified = 1 << 20

// draw fills a workload for each kind of destinations.
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

// ask makes the workload that is verified, and has the oracle answer it: the edges of
// the prefixes, and the first of the destinations of each kind.
func (b *bench) ask() error {
	var addrs []netip.Addr
	for a := range b.Routes.Edges() {
		addrs = append(addrs, a)
	}
	for _, w := range b.loads {
		for i := range min(w.n, verified) {
			addrs = append(addrs, w.addr(i))
		}
	}
	w, err := b.newWorkload("the questions", len(addrs))
	if err != nil {
		return err
	}
	for len(addrs) < w.n {
		addrs = append(addrs, addrs[0])
	}
	b.questions = w
	truth := oracle.NewRanges(b.Routes.All())
	return parallel(w.n, func(from, to int) error {
		for i := from; i < to; i++ {
			w.put(i, addrs[i])
			hop, _ := truth.Lookup(addrs[i]) // 0 if there is none
			w.want[i] = uint32(hop)
		}
		return nil
	})
}

// answer walks the table for all destinations, once the walk has answered the questions.
func (b *bench) answer(table *trie.Table) error {
	walk := func(w *workload, i int) uint32 {
		_, hop := table.Walk(w.key(i))
		return uint32(hop)
	}
	err := parallel(b.questions.n, func(from, to int) error {
		for i := from; i < to; i++ {
			if got, want := walk(b.questions, i), b.questions.want[i]; got != want {
				return fmt.Errorf("verify the table in Go: %v has next hop %d, want %d", b.questions.addr(i), got, want)
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

// poison is each byte of a result that no lookup has: it is beyond lookup.MaxNextHop.
const poison = 0xff

// parallel divides n items among the processors, and returns one error of theirs.
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
