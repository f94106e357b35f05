package fib

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestWordsHoldTheirFields(t *testing.T) {
	f := New(0)
	f.SetPort(7, 0x0200deadbeef, 1500)
	if p := f.Port(7); p.MAC() != 0x0200deadbeef || p.MTU() != 1500 {
		t.Errorf("port: %v, MTU %d", p.MAC(), p.MTU())
	}
	a, _ := f.NewAdjacency(4095)
	if w := f.Adjacency(a); w.Resolved() || w.Port() != 4095 {
		t.Errorf("new adjacency: resolved %v, port %d", w.Resolved(), w.Port())
	}
	f.SetAdjacency(a, 4095, 0xfedcba987654)
	if w := f.Adjacency(a); !w.Resolved() || w.MAC() != 0xfedcba987654 || w.MAC().String() != "fe:dc:ba:98:76:54" || w.Port() != 4095 {
		t.Errorf("adjacency: %v, port %d", w.MAC(), w.Port())
	}
	for _, k := range []Kind{KindLocal, KindBlackhole, KindUnreachable, KindProhibit, KindNoPort} {
		id, err := f.NewNextHop(k)
		if err != nil || id == 0 || f.NextHop(id).Kind() != k || f.NextHop(id).Group() {
			t.Errorf("%v: %#x, %v", k, f.NextHop(id), err)
		}
	}
	if _, err := f.NewNextHop(KindForward); err == nil {
		t.Error("a forwarding next hop without a path is accepted")
	}
	if _, err := f.NewNextHop(KindLocal, Path{}); err == nil {
		t.Error("a local next hop with a path is accepted")
	}
}

// A next hop keeps its MTU when its kind and paths change. The smaller MTU of next hop and port applies.
func TestNextHopsKeepTheirMTU(t *testing.T) {
	f := New(0)
	one, two := []Path{{Adjacency: 1}}, []Path{{Adjacency: 1}, {Adjacency: 2}}
	id, err := f.NewNextHop(KindForward, one...)
	require.NoError(t, err)
	if w := f.NextHop(id); w.MTU() != 0 || w.Limit(1500) != 1500 || w.Limit(65535) != 65535 {
		t.Errorf("a new next hop: %#x, limits %d and %d", w, w.Limit(1500), w.Limit(65535))
	}
	f.SetNextHopMTU(id, 1400)
	for _, set := range []func() error{
		func() error { return nil },
		func() error { return f.SetNextHop(id, KindForward, two...) },
		func() error { return f.SetNextHop(id, KindForward, two...) }, // the same group
		func() error { return f.SetNextHop(id, KindNoPort) },
		func() error { return f.SetNextHop(id, KindForward, one...) },
	} {
		require.NoError(t, set())
		w := f.NextHop(id)
		if w.MTU() != 1400 || w.Limit(1500) != 1400 || w.Limit(1400) != 1400 || w.Limit(1399) != 1399 || w.Limit(0) != 0 || w>>33&0x7f != 0 {
			t.Errorf("%#x: MTU %d", w, w.MTU())
		}
	}
	f.SetNextHopMTU(id, 65535)
	if w := f.NextHop(id); w.Kind() != KindForward || w.Index() != 1 || w.MTU() != 65535 || w.Limit(65535) != 65535 {
		t.Errorf("%#x", w)
	}
	f.FreeNextHop(id)
	if again, err := f.NewNextHop(KindForward, one...); err != nil || again != id || f.NextHop(again).MTU() != 0 {
		t.Errorf("reused index %d: %#x (%v)", again, f.NextHop(again), err)
	}
}

func TestNextHopChangesBetweenOneAndManyPaths(t *testing.T) {
	f := New(0)
	a, b := Path{Adjacency: 1, Weight: 1}, Path{Adjacency: 2, Weight: 1}
	id, err := f.NewNextHop(KindForward, a)
	require.NoError(t, err)
	if w := f.NextHop(id); w.Group() || w.Index() != 1 {
		t.Errorf("one path: %#x", w)
	}
	check := func(want map[uint32]int) {
		t.Helper()
		w, got := f.NextHop(id), map[uint32]int{}
		if !w.Group() {
			t.Fatalf("many paths: %#x", w)
		}
		for i := range Buckets {
			got[atomic.LoadUint32(&f.groups[int(w.Index())*Buckets+i])]++
		}
		for a, n := range want {
			if got[a] != n {
				t.Errorf("buckets %v, want %v", got, want)
			}
		}
	}
	require.NoError(t, f.SetNextHop(id, KindForward, a, b))
	check(map[uint32]int{1: 128, 2: 128})
	group := f.NextHop(id).Index()
	require.NoError(t, f.SetNextHop(id, KindForward, a, Path{Adjacency: 3, Weight: 3}))
	check(map[uint32]int{1: 64, 3: 192})
	if f.NextHop(id).Index() != group {
		t.Error("a changed group got a new index: all its flows may have moved")
	}
	require.NoError(t, f.SetNextHop(id, KindBlackhole))
	if w := f.NextHop(id); w.Kind() != KindBlackhole {
		t.Errorf("blackhole: %#x", w)
	}
	if g, _ := f.groupIDs.alloc(); g != group {
		t.Errorf("the group's index is not reused: got %d, want %d", g, group)
	}
}

func TestIndexesAreReusedAfterTheirReaders(t *testing.T) {
	f := New(0)
	one, two := f.NewReader(), f.NewReader()
	id, _ := f.NewAdjacency(0)
	one.Hold(one.Now())
	f.FreeAdjacency(id) // one may have seen it
	if got, _ := f.NewAdjacency(0); got == id {
		t.Fatal("an index was reused while a reader could read its entry")
	}
	two.Hold(two.Now()) // began later: cannot have seen it
	if got, _ := f.NewAdjacency(0); got == id {
		t.Fatal("an index was reused while a reader could read its entry")
	}
	one.Release()
	if got, _ := f.NewAdjacency(0); got != id {
		t.Errorf("got index %d, want %d, which no reader can read", got, id)
	}
}

func TestReusedNextHopHasItsOwnGroup(t *testing.T) {
	f := New(0)
	paths := func(a uint32) []Path { return []Path{{Adjacency: a}, {Adjacency: a + 1}} }
	first, err := f.NewNextHop(KindForward, paths(1)...)
	require.NoError(t, err)
	group := f.NextHop(first).Index()
	f.FreeNextHop(first)

	second, err := f.NewNextHop(KindForward, paths(3)...)
	require.NoError(t, err)
	third, err := f.NewNextHop(KindForward, paths(5)...)
	require.NoError(t, err)
	if second != first || f.NextHop(second).Index() != group {
		t.Fatal("the indexes were not reused: this test tests nothing")
	}
	if f.NextHop(third).Index() == f.NextHop(second).Index() {
		t.Errorf("two next hops share group %d", f.NextHop(third).Index())
	}
}

func TestFullArraysReturnErrFull(t *testing.T) {
	f := New(0)
	f.groupIDs.limit = 1
	paths := []Path{{Adjacency: 1}, {Adjacency: 2}}
	if _, err := f.NewNextHop(KindForward, paths...); err != nil {
		t.Fatal(err)
	}
	next := f.hopIDs.next
	if _, err := f.NewNextHop(KindForward, paths...); !errors.Is(err, ErrFull) {
		t.Errorf("a group too many: %v", err)
	}
	if id, err := f.NewNextHop(KindLocal); err != nil || uint32(id) != next {
		t.Errorf("the failed next hop kept its index: next is %d, want %d (%v)", id, next, err)
	}
}

func TestParseMAC(t *testing.T) {
	if m, err := ParseMAC([]byte{2, 0, 0, 0, 1, 0xfe}); err != nil || m != 0x0200000001fe {
		t.Errorf("%v, %v", m, err)
	}
	if _, err := ParseMAC(make([]byte, 8)); err == nil {
		t.Error("an address of 8 bytes is accepted")
	}
}
