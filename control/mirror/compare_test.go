package mirror

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// sameAsFresh compares the mirror, which applied events, with a new one, which dumps Linux: routes
// and FIB must be equal.
func (w *world) sameAsFresh() {
	w.t.Helper()
	w.same(func() []string {
		other := fib.New(1)
		fresh := w.mirror(other, Hooks{VRFs: w.vrfs}, defaults)
		defer fresh.Close()
		return slices.Concat(compareRoutes(w.m.Routes(), fresh.Routes()), w.compareFIBs(other), w.verify())
	})
}

// verify returns the differences from Linux that Verify finds.
func (w *world) verify() (differences []string) {
	v, err := w.m.Verify()
	require.NoError(w.t, err)
	for _, d := range v.Differences {
		differences = append(differences, fmt.Sprintf("verify: table %d, %v: Linux %q, router %q", d.Table, d.Address, d.Linux, d.Router))
	}
	return differences
}

// same reports differences that last: Linux applies some changes with a delay. A path over a link that
// was set up stays dead in IPv6 until Linux has processed the change of its carrier, which it does at
// most once a second (net/core/link_watch.c).
func (w *world) same(differences func() []string) {
	w.t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		w.m.settle()
		found := differences()
		if len(found) == 0 {
			return
		}
		if time.Now().After(end) {
			w.t.Error(strings.Join(found, "\n"))
			return
		}
	}
}

func compareRoutes(got, want []RouteInfo) (differences []string) {
	texts := func(routes []RouteInfo) (lines []string) {
		for _, r := range routes {
			lines = append(lines, r.String())
		}
		return lines
	}
	g, f := texts(got), texts(want)
	if slices.Equal(g, f) {
		return nil
	}
	count := map[string]int{}
	for _, line := range g {
		count[line]++
	}
	for _, line := range f {
		count[line]--
	}
	for line, n := range count {
		switch {
		case n > 0:
			differences = append(differences, "route that Linux does not have: "+line)
		case n < 0:
			differences = append(differences, "missing route: "+line)
		}
	}
	for i := range g {
		if len(differences) == 0 && g[i] != f[i] {
			differences = append(differences, fmt.Sprintf("in another order than Linux's: %s, before %s", g[i], f[i]))
		}
	}
	return differences
}

// compareFIBs compares the outcome for the first and last addresses of all prefixes and their
// neighbors with that of another FIB.
func (w *world) compareFIBs(want *fib.FIB) (differences []string) {
	if w.fib.IPv4.Len() != want.IPv4.Len() || w.fib.IPv6.Len() != want.IPv6.Len() {
		differences = append(differences, fmt.Sprintf("the FIB has %d IPv4 and %d IPv6 prefixes, want %d and %d",
			w.fib.IPv4.Len(), w.fib.IPv6.Len(), want.IPv4.Len(), want.IPv6.Len()))
	}
	for _, ip := range edges(w.m.Routes(), w.m.Neighbors()) {
		if got, want := outcome(w.fib, ip), outcome(want, ip); got != want {
			differences = append(differences, fmt.Sprintf("packets to %v: %q, want %q", ip, got, want))
		}
	}
	return differences
}

// edges returns the first and last addresses of prefixes, and the addresses next to them.
func edges(routes []RouteInfo, neighbors []NeighborInfo) (ips []netip.Addr) {
	add := func(p netip.Prefix) {
		first, last := p.Addr(), lastAddr(p)
		for _, ip := range []netip.Addr{first.Prev(), first, first.Next(), last.Prev(), last, last.Next()} {
			if ip.IsValid() {
				ips = append(ips, ip)
			}
		}
	}
	for _, r := range routes {
		add(r.Prefix)
	}
	for _, n := range neighbors {
		add(netip.PrefixFrom(n.Address, n.Address.BitLen()))
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return slices.Compact(ips)
}
