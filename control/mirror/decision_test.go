package mirror

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
)

// The buckets of a group match the weights of its paths, whatever the weights are and whichever
// paths are dead.
func TestBucketsMatchWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f := fib.New(1)
	var adjacencies []uint32
	for range 20 {
		id, err := f.NewAdjacency(0)
		require.NoError(t, err)
		adjacencies = append(adjacencies, id)
	}
	name := func(id uint32) string { return fmt.Sprint("way ", id) }
	for range 2000 {
		want := map[string]float64{}
		var paths []fib.Path
		most := 1 << (1 + random.IntN(9))
		for i := range 2 + random.IntN(len(adjacencies)-2) {
			p := fib.Path{Adjacency: adjacencies[i], Weight: 1 + random.Uint32N(uint32(most)), Dead: i > 0 && random.IntN(4) == 0}
			paths = append(paths, p)
			if !p.Dead {
				want[name(p.Adjacency)] = float64(p.Weight)
			}
		}
		id, err := f.NewNextHopAfter(0, fib.KindForward, paths...)
		require.NoError(t, err)
		got := map[string]float64{}
		for _, adjacency := range f.Words().Groups[int(f.NextHop(id).Index())*fib.Buckets:][:fib.Buckets] {
			got[name(adjacency)]++
		}
		if !share(got, 0).matches(share(want, 0)) {
			t.Errorf("%v: %v, want %v", paths, share(got, 0), share(want, 0))
		}
		f.FreeNextHop(id)
	}
}

// Shares that differ from Linux's by more than slack do not match.
func TestOtherSharesDoNotMatch(t *testing.T) {
	type ways = map[string]float64
	forward := func(w ways) decision { return share(w, 0) }
	for _, c := range []struct {
		name           string
		engines, linux decision
		pass           bool
	}{
		{"the same", forward(ways{"a": 64, "b": 192}), forward(ways{"a": 1, "b": 3}), true},
		{"two of 256 flows off", forward(ways{"a": 66, "b": 190}), forward(ways{"a": 1, "b": 3}), true},
		{"three of them", forward(ways{"a": 67, "b": 189}), forward(ways{"a": 1, "b": 3}), false},
		{"the other way round", forward(ways{"a": 3, "b": 1}), forward(ways{"a": 1, "b": 3}), false},
		{"too little for a flow", forward(ways{"a": 1}), forward(ways{"a": 256, "b": 1}), true},
		{"one way only", forward(ways{"a": 1}), forward(ways{"a": 99, "b": 1}), false},
		{"a way that is not Linux's", forward(ways{"a": 255, "b": 1}), forward(ways{"a": 1}), false},
		{"another way", forward(ways{"b": 1}), forward(ways{"a": 1}), false},
		{"another kind", decision{kind: fib.KindLocal}, decision{kind: fib.KindBlackhole}, false},
		{"the same kind", decision{kind: fib.KindLocal}, decision{kind: fib.KindLocal}, true},
	} {
		if got := c.engines.matches(c.linux); got != c.pass {
			t.Errorf("%s: %v for %v passes: %v", c.name, c.engines, c.linux, got)
		}
	}
}

// A route message truncates weights to 8 bits; the message of the next-hop group does not.
func TestGroupWeightsComeFromTheObject(t *testing.T) {
	v := newLinuxDump()
	v.objects[10] = rtnl.NexthopObject{ID: 10, Group: []rtnl.Member{{ID: 1, Weight: 300}, {ID: 2, Weight: 1}}}
	v.addRoute(&rtnl.Route{
		Dst: netip.MustParsePrefix("20.0.0.0/8"), Table: unix.RT_TABLE_MAIN, Type: unix.RTN_UNICAST, NexthopID: 10,
		Paths: []rtnl.Path{{Index: 1, Gateway: netip.MustParsePrefix("10.1.0.2/32").Addr(), Weight: 44}, {Index: 2, Gateway: netip.MustParsePrefix("10.2.0.2/32").Addr(), Weight: 1}},
	})
	r, ok := v.routes[0].Get(netip.MustParsePrefix("20.0.0.0/8"))
	if !ok || r.route.Paths[0].Weight != 300 {
		t.Errorf("got %+v", r.route)
	}
}
