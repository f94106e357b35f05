package mirror

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// Verify names an address for every kind of wrong FIB entry.
func TestVerifyFindsDifferences(t *testing.T) {
	w := newWorld(t)
	w.ip(known...)
	w.start()
	w.ip("route add 20.0.0.0/8 via 10.1.0.2", "route add 20.1.0.0/16 via 10.2.0.2", "route add blackhole 21.0.0.0/8",
		"route add 24.0.0.0/8 via 10.1.0.2 mtu 1400", "route add 22.0.0.0/8 nexthop via 10.1.0.2 nexthop via 10.2.0.2", "route add 2001:db8::/32 via fd01::2",
		"route add 25.0.0.0/8 nexthop via 10.1.0.2 weight 3 nexthop via 10.2.0.2 weight 1",
		"nexthop add id 1 via 10.1.0.2 dev lan", "nexthop add id 2 via 10.2.0.2 dev wan", "nexthop add id 3 via 10.1.0.3 dev lan",
		"nexthop add id 10 group 1,200/2,100", "nexthop add id 11 group 3,200/2,100", "route add 26.0.0.0/8 nhid 10", "route add 27.0.0.0/8 nhid 11",
		"route add fd25::/16 nexthop via fd01::2 weight 10 nexthop via fd02::2", "route add fd26::/16 nexthop via fd01::2 nexthop via fd02::2 weight 10",
		"route add 28.0.0.0/8 nexthop via 10.1.0.2 weight 256 nexthop via 10.2.0.2 weight 256 nexthop via 10.1.0.3 weight 1", // which has no flows
		"route add 23.0.0.0/8 via 10.3.0.2 dev oob onlink", "neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev lan nud permanent")
	if found := w.verify(); len(found) > 0 {
		t.Fatalf("before anything is wrong: %v", found)
	}
	if v, _ := w.m.Verify(); v.RoutesIPv4 < 10 || v.RoutesIPv6 < 5 || v.Addresses < 2*15 {
		t.Errorf("it looked at %+v", v)
	}
	prefix := netip.MustParsePrefix
	hopOf := func(p string) fib.NextHopID {
		_, id, _ := w.fib.IPv4.LookupPrefix(prefix(p).Addr())
		return id
	}
	hopOf6 := func(p string) fib.NextHopID {
		_, id, _ := w.fib.IPv6.LookupPrefix(prefix(p).Addr())
		return id
	}
	for _, c := range []struct {
		name, want string
		wrong      func() error
	}{
		{"a route is missing", "20.1.0.0: Linux \"20.1.0.0/16 forward by wan", func() error { w.fib.IPv4.Delete(prefix("20.1.0.0/16")); return nil }},
		{"a route that Linux does not have", "prefixes", func() error { return w.fib.IPv4.Insert(prefix("20.9.0.0/16"), hopOf("20.0.0.0/8")) }},
		{"a route with another's next hop", "20.0.0.0: ", func() error { return w.fib.IPv4.Insert(prefix("20.0.0.0/8"), hopOf("20.1.0.0/16")) }},
		{"a path too few", "22.0.0.0: ", func() error { return w.fib.IPv4.Insert(prefix("22.0.0.0/8"), hopOf("20.0.0.0/8")) }},
		{"other weights", "25.0.0.0: Linux \"25.0.0.0/8 forward by lan to 10.1.0.2 (02:00:00:00:01:02), 75.0 %; by wan", func() error {
			return w.fib.IPv4.Insert(prefix("25.0.0.0/8"), hopOf("22.0.0.0/8"))
		}},
		{"another member of a group", "26.0.0.0: ", func() error { return w.fib.IPv4.Insert(prefix("26.0.0.0/8"), hopOf("27.0.0.0/8")) }},
		{"other weights in a group", "26.0.0.0: ", func() error { return w.fib.IPv4.Insert(prefix("26.0.0.0/8"), hopOf("22.0.0.0/8")) }},
		{"other weights of IPv6", "fd25::: ", func() error { return w.fib.IPv6.Insert(prefix("fd25::/16"), hopOf6("fd26::/16")) }},
		{"a route of another kind", "21.0.0.0: Linux \"21.0.0.0/8 blackhole\"", func() error { return w.fib.IPv4.Insert(prefix("21.0.0.0/8"), hopOf("23.0.0.0/8")) }},
		{"a neighbor too few", "10.1.0.9: Linux \"10.1.0.9/32 forward by lan to 10.1.0.9", func() error { w.fib.IPv4.Delete(prefix("10.1.0.9/32")); return nil }},
		{"a route without its MTU", "24.0.0.0: Linux \"24.0.0.0/8 forward by lan to 10.1.0.2 (02:00:00:00:01:02), mtu 1400\"", func() error { return w.fib.IPv4.Insert(prefix("24.0.0.0/8"), hopOf("20.0.0.0/8")) }},
		{"an IPv6 route is missing", "2001:db8::: ", func() error { w.fib.IPv6.Delete(prefix("2001:db8::/32")); return nil }},
		{"another station's address", "20.0.0.0: ", func() error {
			for _, a := range w.m.adjacencies {
				w.fib.SetAdjacency(a.id, a.port, 0x020000000066)
			}
			return nil
		}},
	} {
		w.m.do(func() { require.NoError(t, c.wrong()) })
		if found := strings.Join(w.verify(), "\n"); !strings.Contains(found, c.want) {
			t.Errorf("%s: it finds %q, want %q", c.name, found, c.want)
		}
		w.m.do(func() {
			for _, a := range w.m.adjacencies {
				if n := w.m.neighbors[a.to]; n != nil {
					w.fib.SetAdjacency(a.id, a.port, n.mac)
				}
			}
			w.m.rewriteTable(w.m.main, 0)
			w.m.rewriteTable(w.m.main, 1)
		})
		if found := w.verify(); len(found) > 0 {
			t.Fatalf("%s, repaired: %v", c.name, found)
		}
	}
}
