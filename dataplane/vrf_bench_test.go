package dataplane

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// Packets of a port in a VRF, against those of a port in none of a router without VRFs, with the same 1,000 routes, on
// memory ports. The two alternate; the ratio of the medians of their rates is reported.
func BenchmarkVRF(b *testing.B) {
	for _, vrfs := range []int{1, 256} {
		b.Run(fmt.Sprint(vrfs), func(b *testing.B) {
			compareRates(b, []string{"main", "VRF"}, benchWorker(b, 1000, false), inVRF(b, benchWorker(b, 1000, false), vrfs))
		})
	}
}

// inVRF moves the routes of a worker to each of a number of VRFs, and its port to the last.
func inVRF(b *testing.B, w *worker, vrfs int) *worker {
	var prefixes []netip.Prefix
	for i := range 1000 {
		prefixes = append(prefixes, netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)))
	}
	for range vrfs {
		vrf, err := w.fib.NewVRF()
		require.NoError(b, err)
		for _, p := range prefixes {
			a := p.Addr().As4()
			require.NoError(b, w.fib.IPv4.VRF(int(vrf)).Insert(p, w.fib.IPv4.Lookup(uint32(a[0])<<24|uint32(a[1])<<16|uint32(a[2])<<8)))
		}
		w.fib.SetPortVRF(0, vrf)
	}
	for _, p := range prefixes {
		w.fib.IPv4.Delete(p)
	}
	return w
}
