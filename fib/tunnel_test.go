package fib

import (
	"net/netip"
	"testing"
)

// A next hop over XFRM interfaces names one for each flow, and passes no reverse path check of a port.
func TestNextHopsOverXFRMInterfaces(t *testing.T) {
	f := New(1)
	path := func(id uint32, dead bool) Path { return Path{Adjacency: id, Weight: 1, Dead: dead} }
	hop, err := f.NewNextHop(KindNoPort)
	if err != nil || f.NextHop(hop).OverXFRM() {
		t.Fatal(err, f.NextHop(hop))
	}
	count := func() map[uint32]int {
		n := map[uint32]int{}
		for bucket := range uint32(Buckets) {
			n[f.IfID(f.NextHop(hop), bucket<<24)]++
		}
		return n
	}
	for _, step := range []struct {
		paths []Path
		want  map[uint32]int
	}{
		{[]Path{path(1<<32-1, false)}, map[uint32]int{1<<32 - 1: Buckets}},
		{[]Path{path(7, false), path(9, false)}, map[uint32]int{7: Buckets / 2, 9: Buckets / 2}},
		{[]Path{path(7, true), path(9, false)}, map[uint32]int{9: Buckets}},
		{[]Path{path(9, false)}, map[uint32]int{9: Buckets}},
	} {
		if err := f.SetNextHop(hop, KindNoPort, step.paths...); err != nil {
			t.Fatal(err)
		}
		got := count()
		for id, n := range step.want {
			if got[id] != n || len(got) != len(step.want) {
				t.Errorf("%v: buckets %v, want %v", step.paths, got, step.want)
			}
		}
		if w := f.NextHop(hop); !w.OverXFRM() || w.Kind() != KindNoPort {
			t.Errorf("%v: %#x", step.paths, w)
		}
		if err := f.IPv4.Insert(netip.MustParsePrefix("10.0.0.0/8"), hop); err != nil {
			t.Fatal(err)
		}
		source := f.IPv4.Lookup(0x0a000001)
		if !f.PassesRPF(RPFLoose, 0, source) || f.PassesRPF(RPFStrict, 0, source) {
			t.Errorf("%v: loose fails, or strict passes by a port", step.paths)
		}
	}
	// An adjacency is not taken for an if_id when a route changes its kind.
	for range 2 {
		a, err := f.NewAdjacency(3)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.SetNextHop(hop, KindForward, path(a, false), path(a+1, false)); err != nil || f.NextHop(hop).OverXFRM() {
			t.Fatal(err, f.NextHop(hop))
		}
		if err := f.SetNextHop(hop, KindNoPort, path(7, false), path(9, false)); err != nil {
			t.Fatal(err)
		}
		if got := count(); got[7] != Buckets/2 || got[9] != Buckets/2 {
			t.Errorf("buckets %v", got)
		}
	}
	if err := f.SetNextHop(hop, KindLocal, path(7, false)); err == nil {
		t.Error("a local route has a path")
	}
}
