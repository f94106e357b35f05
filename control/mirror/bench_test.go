package mirror

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// BenchmarkStart reads 200,000 routes of each family from Linux into an empty FIB.
func BenchmarkStart(b *testing.B) {
	const routes = 200_000
	w := newWorld(b)
	lines := append([]string(nil), known...)
	for i := range routes {
		lines = append(lines,
			fmt.Sprintf("route add %d.%d.%d.0/24 via 10.%d.0.2", 20+i>>16, i>>8&255, i&255, 1+i&1),
			fmt.Sprintf("route add fd20:%x:%x::/48 via fd%02d::2", i>>16, i&0xffff, 1+i&1))
	}
	w.ip(lines...)
	b.ResetTimer()
	for range b.N {
		f := fib.New(1)
		m := w.mirror(f, Hooks{}, defaults)
		b.StopTimer()
		if f.IPv4.Len() < routes || f.IPv6.Len() < routes {
			b.Fatalf("%d IPv4 and %d IPv6 routes", f.IPv4.Len(), f.IPv6.Len())
		}
		require.NoError(b, m.Close())
		b.StartTimer()
	}
	b.ReportMetric(2*routes*float64(b.N)/b.Elapsed().Seconds(), "routes/s")
}

// BenchmarkChange replaces one of 200,000 routes by system call and waits for the FIB.
func BenchmarkChange(b *testing.B) {
	w := newWorld(b)
	lines := append([]string(nil), known...)
	for i := range 200_000 {
		lines = append(lines, fmt.Sprintf("route add %d.%d.%d.0/24 via 10.1.0.2", 20+i>>16, i>>8&255, i&255))
	}
	w.ip(lines...)
	w.start()
	link, err := w.router.Link("lan")
	require.NoError(b, err)
	dst := netip.MustParsePrefix("20.1.2.0/24")
	b.ResetTimer()
	for i := range b.N {
		via, want := net.IPv4(10, 1, 0, 2), lan2
		if i&1 == 0 {
			via, want = net.IPv4(10, 1, 0, 3), lan3
		}
		require.NoError(b, w.router.Netlink().RouteReplace(&netlink.Route{
			LinkIndex: link.Attrs().Index, Gw: via,
			Dst: &net.IPNet{IP: dst.Addr().AsSlice(), Mask: net.CIDRMask(24, 32)},
		}))
		for w.outcome("20.1.2.3") != want {
			runtime.Gosched()
		}
	}
}

// BenchmarkEvents adds and deletes 50,000 routes and waits for the FIB.
func BenchmarkEvents(b *testing.B) {
	const routes = 50_000
	w := newWorld(b).start()
	w.ip(known...)
	var add, del []string
	for i := range routes {
		add = append(add, fmt.Sprintf("route add %d.%d.%d.0/24 via 10.1.0.2", 20+i>>16, i>>8&255, i&255))
		del = append(del, fmt.Sprintf("route del %d.%d.%d.0/24", 20+i>>16, i>>8&255, i&255))
	}
	b.ResetTimer()
	for range b.N {
		w.ip(add...)
		w.want("20.7.7.7", lan2)
		w.ip(del...)
		w.want("20.7.7.7", "none")
	}
	b.ReportMetric(2*routes*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
