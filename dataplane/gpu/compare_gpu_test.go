//go:build gpu

package gpu

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/umem"
)

// TestGPUCompareBesideChanges compares the copy of each GPU with the FIB at the edges of internet
// prefixes, beside a resident kernel and while routes change.
func TestGPUCompareBesideChanges(t *testing.T) {
	base := fib.New(1)
	ids := make([]fib.NextHopID, 100)
	for i := range ids {
		var err error
		ids[i], err = base.NewNextHop(fib.KindBlackhole)
		require.NoError(t, err)
	}
	var edges []netip.Addr
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		set := got(routes.Real(f, 1))(t)
		load := base.IPv4.Load
		if f == routes.IPv6 {
			load = base.IPv6.Load
		}
		require.NoError(t, load(func(yield func(netip.Prefix, fib.NextHopID) bool) {
			for p, hop := range set.All() {
				if !yield(p, ids[int(hop)%len(ids)]) {
					return
				}
			}
		}))
		for a := range set.Edges() {
			if rnd.IntN(set.Len()) < 2000 {
				edges = append(edges, a)
			}
		}
	}
	s := got(OpenAll(base, Options{Timeout: time.Second, PartialChecksums: make([]bool, 1)}))(t)
	mem := got(umem.New(64))(t)
	for range s.All {
		if _, err := s.NewEngine(mem.Bytes(), 4, 64, cpu.New(base, mem.Bytes(), make([]bool, 1))); err != nil {
			t.Fatal(err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		rnd := rand.New(rand.NewPCG(2, 2))
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + rnd.IntN(200)), byte(rnd.Uint32()), byte(rnd.Uint32()), byte(rnd.Uint32())}), 32)
			if err := base.IPv4.Insert(p, ids[rnd.IntN(len(ids))]); err != nil {
				t.Error(err)
			}
			base.Commit()
		}
	}()
	start := time.Now()
	for _, a := range edges {
		if err := s.Compare(t.Context(), 0, a); err != nil {
			t.Error(err)
			break
		}
	}
	t.Logf("%d addresses on %d GPUs in %v", len(edges), len(s.All), time.Since(start))
	close(stop)
	<-stopped
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	mem.Close()
}
