package fib

import "testing"

// Somebody has to look as long as a port asks for anything, in either family.
func TestVerifiesAsLongAsAPortAsks(t *testing.T) {
	f := New(1)
	for step, c := range []struct {
		port uint16
		is   Sources
		want bool
	}{
		{0, Sources{}, false}, {0, Sources{IPv6: LooseSource}, true}, {0, Sources{IPv6: LooseSource}, true},
		{4095, Sources{IPv4: StrictSource}, true}, {0, Sources{IPv4: StrictSource, IPv6: StrictSource}, true},
		{0, Sources{}, true}, {4095, Sources{}, false}, {4095, Sources{}, false}, {1, Sources{IPv4: LooseSource}, true},
	} {
		if f.SetSources(c.port, c.is); f.Sources(c.port) != c.is || f.Verifies() != c.want {
			t.Errorf("step %d: %+v of port %d, verifies %v", step, f.Sources(c.port), c.port, f.Verifies())
		}
	}
}

// However small its weight, packets from behind a path arrive by a way back, as in Linux.
func TestStrictTakesPortsOfTheSmallestWeights(t *testing.T) {
	f := New(0)
	var paths []Path
	for port, weight := range []uint32{256, 256, 1, 1} {
		adjacency, err := f.NewAdjacency(uint16(port))
		must(t, err)
		paths = append(paths, Path{Adjacency: adjacency, Weight: weight})
	}
	hop, err := f.NewNextHop(KindForward, paths...)
	must(t, err)
	for port, want := range []bool{true, true, true, true, false} {
		if f.Takes(StrictSource, uint16(port), hop) != want {
			t.Errorf("port %d: taken is %v", port, !want)
		}
	}
}
