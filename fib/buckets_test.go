package fib

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// count returns how many buckets each adjacency has.
func count(buckets [Buckets]uint32) map[uint32]int {
	n := map[uint32]int{}
	for _, a := range buckets {
		n[a]++
	}
	return n
}

func weighted(weights ...uint32) (paths []Path) {
	for i, w := range weights {
		paths = append(paths, Path{Adjacency: uint32(i + 1), Weight: w})
	}
	return paths
}

func TestBucketsFollowTheWeights(t *testing.T) {
	for _, c := range []struct {
		weights []uint32
		want    []int
	}{
		{[]uint32{1}, []int{256}},
		{[]uint32{1, 1}, []int{128, 128}},
		{[]uint32{3, 1}, []int{192, 64}},
		{[]uint32{0, 1}, []int{128, 128}}, // 0 counts as 1
		{[]uint32{1, 2, 5}, []int{32, 64, 160}},
		{[]uint32{1, 1, 1}, []int{86, 85, 85}},
		{[]uint32{1000, 1000, 1, 1, 1}, []int{127, 126, 1, 1, 1}},
		{slices.Repeat([]uint32{1}, Buckets+1), slices.Repeat([]int{1}, Buckets)},
	} {
		paths := weighted(c.weights...)
		got := count(divide(paths, nil).buckets(paths))
		for i, want := range c.want {
			if n := got[uint32(i+1)]; n < max(1, want-1) || n > want+1 {
				t.Errorf("weights %v: path %d has %d buckets, want %d", c.weights, i, n, want)
			}
		}
	}
}

func TestDeadPathMovesOnlyItsOwnFlows(t *testing.T) {
	paths := weighted(2, 1, 1)
	s := divide(paths, nil)
	before := s.buckets(paths)
	paths[0].Dead = true
	s = divide(paths, s)
	after := s.buckets(paths)
	owners := map[uint32]int{}
	for i := range before {
		if before[i] == 1 {
			owners[after[i]]++
		} else if before[i] != after[i] {
			t.Fatalf("bucket %d moved from live path %d to %d", i, before[i], after[i])
		}
	}
	if owners[1] != 0 || owners[2] != 64 || owners[3] != 64 {
		t.Errorf("the dead path's 128 buckets went to %v", owners)
	}
	paths[0].Dead = false
	if s = divide(paths, s); s.buckets(paths) != before {
		t.Error("the path's return does not restore the buckets")
	}
	for i := range paths {
		paths[i].Dead = true
	}
	if divide(paths, s).buckets(paths) != before {
		t.Error("with all paths dead, they do not keep their buckets")
	}
}

// A change of the paths moves the minimum of buckets: from each path as many as its share shrinks.
func TestFewestFlowsMove(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var was *owners
	for range 2000 {
		var paths []Path
		for a := range uint32(8) {
			if rnd.IntN(2) == 0 {
				paths = append(paths, Path{Adjacency: a + 1, Weight: 1 + rnd.Uint32N(3)})
			}
		}
		if len(paths) == 0 {
			continue
		}
		rnd.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		is := divide(paths, was)
		due, have := count(divide(paths, nil).buckets(paths)), count(is.buckets(paths))
		for a, n := range due {
			if have[a] != n {
				t.Fatalf("%v after %v: adjacency %d has %d buckets, want %d", paths, was, a, have[a], n)
			}
		}
		if was != nil {
			must, moved := 0, 0
			for a, n := range count(*was) {
				must += max(0, n-have[a])
			}
			for i := range is {
				if is[i] != was[i] {
					moved++
				}
			}
			if moved != must {
				t.Fatalf("%v after %v: %d buckets moved, %d had to", paths, was, moved, must)
			}
		}
		was = is
	}
}

// Flows stay on a path that remains when its next hop changes or is replaced, also if it was the
// only one in between.
func TestFlowsStayOnRemainingPaths(t *testing.T) {
	f := New(0)
	paths := weighted(1, 1, 1)
	taken := func(id NextHopID) (buckets [Buckets]uint32) {
		w := f.NextHop(id)
		for i := range buckets {
			if buckets[i] = w.Index(); w.Group() {
				buckets[i] = f.groups[int(w.Index())*Buckets+i]
			}
		}
		return buckets
	}
	moved := func(before, after [Buckets]uint32, from, to uint32) {
		t.Helper()
		for i := range before {
			if before[i] != after[i] && before[i] != from && after[i] != to {
				t.Fatalf("bucket %d moved from path %d to %d", i, before[i], after[i])
			}
		}
	}
	all, err := f.NewNextHop(KindForward, paths...)
	require.NoError(t, err)
	start := taken(all)

	without2, err := f.NewNextHopAfter(all, KindForward, paths[0], paths[2])
	require.NoError(t, err)
	moved(start, taken(without2), 2, 0)
	only3, err := f.NewNextHopAfter(without2, KindForward, paths[2])
	require.NoError(t, err)
	f.FreeNextHop(without2)
	again, err := f.NewNextHopAfter(only3, KindForward, paths[1], paths[2])
	require.NoError(t, err)
	moved(taken(only3), taken(again), 0, 2)

	require.NoError(t, f.SetNextHop(all, KindForward, paths[0], paths[1]))
	changed := taken(all)
	moved(start, changed, 3, 0)
	require.NoError(t, f.SetNextHop(all, KindForward, paths...))
	moved(changed, taken(all), 0, 3)
	require.NoError(t, f.SetNextHop(all, KindForward, paths[1]))
	require.NoError(t, f.SetNextHop(all, KindForward, paths[0], paths[1]))
	if n := count(taken(all)); n[1] != 128 || n[2] != 128 {
		t.Errorf("shares %v", n)
	}
}
