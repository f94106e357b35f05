package lookup_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
)

// The tables return the same prefixes as Linux with the same routes.
func TestLinuxFindsTheSamePrefix(t *testing.T) {
	ns, err := lab.New("fib")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "out"}, lab.End{Namespace: ns, Name: "in"}, lab.VethOptions{}))
	sample := 50_000
	if race.Enabled {
		sample /= 10
	}
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		set, err := routes.New("real", f, 0, 1)
		require.NoError(t, err)
		if race.Enabled {
			set.Prefixes, set.Hops = set.Prefixes[:set.Len()/10], set.Hops[:set.Len()/10]
		}
		tb := newTable(f)
		require.NoError(t, tb.Load(set.All()))
		addRoutes(t, ns, set)
		compare(t, ns, tb, set, sample)
	}
}

// addRoutes adds a set of routes to Linux.
func addRoutes(t *testing.T, ns *lab.Namespace, set *routes.Set) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "routes")
	file, err := os.Create(name)
	require.NoError(t, err)
	w := bufio.NewWriter(file)
	for _, p := range set.Prefixes {
		fmt.Fprintf(w, "route add %v dev out\n", p)
	}
	require.NoError(t, w.Flush())
	require.NoError(t, file.Close())
	if out, err := ns.Run("ip", "-batch", name); err != nil {
		t.Fatalf("add %d routes: %v\n%s", set.Len(), err, out)
	}
}

// compare compares the routes of n addresses in Linux and in the table. It skips
// addresses that Linux does not look up in its routing table.
func compare(t *testing.T, ns *lab.Namespace, tb table, set *routes.Set, n int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(8, uint64(set.Family)))
	found := 0
	for _, a := range addresses(set, rnd, n/2, max(1, 8*set.Len()/n)) {
		if a.IsMulticast() || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.Is4In6() || reserved.Contains(a) {
			continue
		}
		want := netip.Prefix{}
		got, err := ns.Netlink().RouteGetWithOptions(a.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
		if err == nil && len(got) == 1 && got[0].Dst != nil {
			bits, _ := got[0].Dst.Mask.Size()
			ip, _ := netip.AddrFromSlice(got[0].Dst.IP)
			if set.Family == routes.IPv4 {
				ip = ip.Unmap()
			}
			want = netip.PrefixFrom(ip, bits)
			found++
		}
		if p, _, _ := tb.LookupPrefix(a); p != want {
			t.Fatalf("%v: %v, Linux %v (%v)", a, p, want, err)
		}
	}
	if found < n/4 {
		t.Errorf("%v: Linux found a route for only %d addresses", set.Family, found)
	}
}

// reserved is the IPv4 block that Linux does not route.
var reserved = netip.MustParsePrefix("240.0.0.0/4")
