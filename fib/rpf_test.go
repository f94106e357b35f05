package fib

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestHasRPFWhileAnyPortFilters(t *testing.T) {
	f := New(1)
	for step, c := range []struct {
		port uint16
		rpf  RPF
		want bool
	}{
		{0, RPF{}, false}, {0, RPF{IPv6: RPFLoose}, true}, {0, RPF{IPv6: RPFLoose}, true},
		{4095, RPF{IPv4: RPFStrict}, true}, {0, RPF{IPv4: RPFStrict, IPv6: RPFStrict}, true},
		{0, RPF{}, true}, {4095, RPF{}, false}, {4095, RPF{}, false}, {1, RPF{IPv4: RPFLoose}, true},
	} {
		if f.SetRPF(c.port, c.rpf); f.RPF(c.port) != c.rpf || f.HasRPF() != c.want {
			t.Errorf("step %d: port %d has %+v, HasRPF is %v", step, c.port, f.RPF(c.port), f.HasRPF())
		}
	}
}

// As in Linux, a path of any weight is a reverse path.
func TestStrictRPFAcceptsPathsOfSmallWeight(t *testing.T) {
	f := New(0)
	var paths []Path
	for port, weight := range []uint32{256, 256, 1, 1} {
		adjacency, err := f.NewAdjacency(uint16(port))
		require.NoError(t, err)
		paths = append(paths, Path{Adjacency: adjacency, Weight: weight})
	}
	hop, err := f.NewNextHop(KindForward, paths...)
	require.NoError(t, err)
	for port, want := range []bool{true, true, true, true, false} {
		if f.PassesRPF(RPFStrict, uint16(port), hop) != want {
			t.Errorf("port %d passes: %v", port, !want)
		}
	}
}
