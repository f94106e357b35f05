// Package lookup_test tests both tables with internet-sized sets of routes.
package lookup_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/ipv4"
	"github.com/warproute/warproute/lookup/ipv6"
	"github.com/warproute/warproute/lookup/trie"
)

// table is an IPv4 or IPv6 table with batch lookups of netip addresses.
type table struct {
	*trie.Table
	family  routes.Family
	kernels []string
	use     func(string) error
	batch   func(dst []lookup.NextHopID, src []netip.Addr)
}

func newTable(f routes.Family) table {
	if f == routes.IPv4 {
		v4, src := ipv4.New(), make([]uint32, 0, batchSize)
		return table{&v4.Table, f, ipv4.Kernels(), v4.Use, func(dst []lookup.NextHopID, addrs []netip.Addr) {
			src = src[:0]
			for _, a := range addrs {
				b := a.As4()
				src = append(src, binary.BigEndian.Uint32(b[:]))
			}
			v4.LookupBatch(dst, src)
		}}
	}
	v6, src := ipv6.New(), make([][16]byte, 0, batchSize)
	return table{&v6.Table, f, ipv6.Kernels(), v6.Use, func(dst []lookup.NextHopID, addrs []netip.Addr) {
		src = src[:0]
		for _, a := range addrs {
			src = append(src, a.As16())
		}
		v6.LookupBatch(dst, src)
	}}
}

const batchSize = 1000

// agree compares the next hops of every kernel with the oracle's.
func (tb table) agree(t *testing.T, want *oracle.Ranges[lookup.NextHopID], addrs []netip.Addr) {
	t.Helper()
	hops := make([]lookup.NextHopID, len(addrs))
	for i, a := range addrs {
		hops[i], _ = want.Lookup(a)
	}
	var dst [batchSize]lookup.NextHopID
	for _, kernel := range tb.kernels {
		require.NoError(t, tb.use(kernel))
		for _, size := range []int{batchSize, 16} {
			for i := 0; i < len(addrs); i += size {
				src := addrs[i:min(i+size, len(addrs))]
				tb.batch(dst[:], src)
				for k, a := range src {
					if dst[k] != hops[i+k] {
						t.Fatalf("%s: %v: next hop %d, want %d", kernel, a, dst[k], hops[i+k])
					}
				}
			}
		}
	}
}

// addresses returns n random addresses, and one in keep of those at the edges of the prefixes.
func addresses(set *routes.Set, rnd *rand.Rand, n, keep int) (addrs []netip.Addr) {
	for range n {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], rnd.Uint64())
		binary.BigEndian.PutUint64(b[8:], rnd.Uint64())
		a, _ := netip.AddrFromSlice(b[:set.Family.Bits()/8])
		addrs = append(addrs, a)
	}
	for a := range set.Edges() {
		if rnd.IntN(keep) == 0 {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// Every kernel agrees with the oracle, which shares no code with it: at all edges of all
// prefixes and for a million other addresses, before and after a million changes. The
// sets of routes are the internet's and adversarial ones.
func TestTablesAgreeWithTheOracle(t *testing.T) {
	for _, c := range []struct {
		name         string
		size4, size6 int
	}{
		{"real", 0, 0},
		{"internet", 1_200_000, 300_000},
		{"nested", 100_000, 50_000},
		{"adversarial", 200_000, 20_000},
		{"dense", 200_000, 100_000},
	} {
		if race.Enabled && (c.name == "internet" || c.name == "dense") {
			continue
		}
		for f, size := range map[routes.Family]int{routes.IPv4: c.size4, routes.IPv6: c.size6} {
			if race.Enabled {
				size /= 10
			}
			t.Run(c.name+" "+f.String(), func(t *testing.T) {
				set, err := routes.New(c.name, f, size, 1)
				require.NoError(t, err)
				rnd := rand.New(rand.NewPCG(1, uint64(f)))
				tb := newTable(f)
				require.NoError(t, tb.Load(set.All()))
				n, keep := 200_000, 1
				if c.name == "real" {
					n = 1_000_000
					t.Logf("%d routes, %s; %d MiB, %d nodes", set.Len(), set.Source, tb.Bytes()>>20, tb.Image().NodesInUse())
				}
				if race.Enabled {
					n, keep = n/10, 10
				}
				tb.agree(t, oracle.NewRanges(set.All()), addresses(set, rnd, n, keep))
				tb.churn(t, set, rnd, n)
				tb.clear(t, set)
			})
		}
	}
}

// churn deletes, inserts and replaces n random routes, and compares with the oracle.
func (tb table) churn(t *testing.T, set *routes.Set, rnd *rand.Rand, n int) {
	t.Helper()
	present := make([]bool, set.Len())
	hops := append([]lookup.NextHopID(nil), set.Hops...)
	for i := range present {
		present[i] = true
	}
	for range n {
		i := rnd.IntN(len(present))
		p := set.Prefixes[i]
		if p.Bits() < 8 && rnd.IntN(100) > 0 {
			continue // covers much of the root
		}
		if present[i] && rnd.IntN(3) < 2 {
			if present[i] = false; !tb.Delete(p) {
				t.Fatalf("delete %v: no such route", p)
			}
			continue
		}
		present[i], hops[i] = true, lookup.NextHopID(1+rnd.IntN(int(lookup.MaxNextHopID)))
		require.NoError(t, tb.Insert(p, hops[i]))
	}
	tb.agree(t, oracle.NewRanges(func(yield func(netip.Prefix, lookup.NextHopID) bool) {
		for i, p := range set.Prefixes {
			if present[i] && !yield(p, hops[i]) {
				return
			}
		}
	}), addresses(set, rnd, n/4, 16))
}

// clear deletes all routes in ascending order and checks that the table is empty.
func (tb table) clear(t *testing.T, set *routes.Set) {
	t.Helper()
	for _, p := range set.Prefixes {
		tb.Delete(p)
	}
	if tb.Len() != 0 || tb.Image().NodesInUse() != 0 {
		t.Errorf("%d routes and %d nodes in an empty table", tb.Len(), tb.Image().NodesInUse())
	}
	if left := tb.Bytes(); left > 4<<20 {
		t.Errorf("an empty table keeps %d bytes", left)
	}
}
