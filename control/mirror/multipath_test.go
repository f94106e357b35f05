package mirror

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/warproute/warproute/fib"
)

// buckets returns the path of each bucket of the group to an address; a single path has all
// buckets.
func (w *world) buckets(to string) (ways [fib.Buckets]string) {
	w.t.Helper()
	ip := netip.MustParseAddr(to)
	lookup := w.fib.IPv4.LookupPrefix
	if ip.Is6() {
		lookup = w.fib.IPv6.LookupPrefix
	}
	_, id, ok := lookup(ip)
	hop := w.fib.NextHop(id)
	if !ok || hop.Kind() != fib.KindForward {
		w.t.Fatalf("packets to %s are not forwarded: %v", to, hop.Kind())
	}
	for i := range ways {
		adjacency := hop.Index()
		if hop.Group() {
			adjacency = atomic.LoadUint32(&w.fib.Words().Groups[int(hop.Index())*fib.Buckets+i])
		}
		ways[i] = adjacencyOutcome(w.fib, adjacency)
	}
	return ways
}

// When a path of a multipath route fails or returns, the flows of other paths stay, and each path
// has its share.
func TestOnlyFlowsOfAFailedPathMove(t *testing.T) {
	for _, c := range []struct {
		name   string
		to     string
		before []string
		change []string
		back   []string
	}{
		{"IPv4 route replaced", "20.0.0.1",
			[]string{"route add 20.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2 nexthop via 10.1.0.3"},
			[]string{"route replace 20.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.1.0.3"},
			[]string{"route replace 20.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2 nexthop via 10.1.0.3"}},
		{"IPv4 link down", "20.0.0.1",
			[]string{"route add 20.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2 nexthop via 10.1.0.3"},
			[]string{"link set wan down"}, []string{"link set wan up"}},
		{"IPv6 path deleted", "fd20::1",
			[]string{"route add fd20::/16 nexthop via fd01::2 nexthop via fd02::2 nexthop via fd01::3"},
			[]string{"route del fd20::/16 via fd02::2 dev wan"}, []string{"route append fd20::/16 via fd02::2 dev wan"}},
		{"IPv6 link down", "fd20::1",
			[]string{"route add fd20::/16 nexthop via fd01::2 nexthop via fd02::2 nexthop via fd01::3"},
			[]string{"link set wan down"}, nil},
		{"group replaced", "20.0.0.1",
			[]string{"nexthop add id 1 via 10.1.0.2 dev lan", "nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 3 via 10.1.0.3 dev lan",
				"nexthop add id 10 group 1/2/3", "route add 20.0.0.0/8 nhid 10"},
			[]string{"nexthop replace id 10 group 1/3"}, []string{"nexthop replace id 10 group 1/2/3"}},
		{"member of a group deleted", "20.0.0.1",
			[]string{"nexthop add id 1 via 10.1.0.2 dev lan", "nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 3 via 10.1.0.3 dev lan",
				"nexthop add id 10 group 1/2/3", "route add 20.0.0.0/8 nhid 10"},
			[]string{"nexthop del id 2"}, []string{"nexthop add id 2 via 10.2.0.2 dev wan", "nexthop replace id 10 group 1/2/3"}},
		{"member of a resilient group deleted", "20.0.0.1",
			[]string{"nexthop add id 1 via 10.1.0.2 dev lan", "nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 3 via 10.1.0.3 dev lan",
				"nexthop add id 10 group 1/2/3 type resilient buckets 32", "route add 20.0.0.0/8 nhid 10"},
			[]string{"nexthop del id 2"}, []string{"nexthop add id 2 via 10.2.0.2 dev wan", "nexthop replace id 10 group 1/2/3 type resilient"}},
		{"IPv6 route to another group, as of FRR", "fd20::1",
			[]string{"nexthop add id 1 via fd01::2 dev lan", "nexthop add id 2 via fd02::2 dev wan", "nexthop add id 3 via fd01::3 dev lan",
				"nexthop add id 10 group 1/2/3", "nexthop add id 11 group 1/3", "route add fd20::/16 nhid 10"},
			[]string{"route replace fd20::/16 nhid 11"}, []string{"route replace fd20::/16 nhid 10"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.ip(known...)
			w.start()
			w.ip(c.before...)
			before := w.buckets(c.to)
			w.ip(c.change...)
			w.m.settle()
			after, shares := w.buckets(c.to), map[string]int{}
			for i := range before {
				shares[after[i]]++
				if before[i] != wan2 && before[i] != after[i] {
					t.Fatalf("bucket %d moved from %s, which stays, to %s", i, before[i], after[i])
				}
			}
			for way, n := range shares {
				if len(shares) != 2 || n < 127 || n > 129 {
					t.Errorf("%d buckets go to %s, want half of them (%v)", n, way, shares)
				}
			}
			if c.back == nil {
				return
			}
			w.ip(c.back...)
			again, returned := w.buckets(c.to), 0
			for i := range after {
				if again[i] != after[i] {
					returned++
				}
			}
			if returned < 84 || returned > 86 {
				t.Errorf("%d buckets moved when the path came back, want a third of 256", returned)
			}
		})
	}
}
