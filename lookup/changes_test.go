package lookup_test

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
)

// A writer alternates between a default route and a longer route, so that one of them
// always exists. A concurrent reader never misses.
func TestReplacingTheDefaultRouteNeverMisses(t *testing.T) {
	for f, longer := range map[routes.Family]string{routes.IPv4: "10.0.0.0/24", routes.IPv6: "fd00::/24"} {
		narrow, tb := netip.MustParsePrefix(longer), newTable(f)
		all := netip.PrefixFrom(narrow.Addr(), 0).Masked()
		insert := func(p netip.Prefix, nh lookup.NextHopID) {
			if err := tb.Insert(p, nh); err != nil {
				t.Error(err)
			}
		}
		insert(all, 1)
		for _, kernel := range tb.kernels {
			require.NoError(t, tb.use(kernel))
			var stop atomic.Bool
			misses := make(chan int)
			go func() {
				src, dst, n := make([]netip.Addr, batchSize), make([]lookup.NextHopID, batchSize), 0
				for i := range src {
					src[i] = narrow.Addr()
				}
				for !stop.Load() {
					tb.batch(dst, src)
					for _, nh := range dst {
						if nh == lookup.Miss {
							n++
						}
					}
				}
				misses <- n
			}()
			for start := time.Now(); time.Since(start) < 100*time.Millisecond; {
				insert(narrow, 2)
				tb.Delete(all)
				insert(all, 1)
				tb.Delete(narrow)
			}
			stop.Store(true)
			if n := <-misses; n > 0 {
				t.Errorf("%v with %s: %d lookups missed", f, kernel, n)
			}
		}
	}
}
