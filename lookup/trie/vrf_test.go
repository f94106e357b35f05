package trie

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
)

// vrfWorld is a table with VRFs, of which some numbers are not used, their oracles, and a copy.
type vrfWorld struct {
	t     *testing.T
	rnd   *rand.Rand
	table *Table
	copy  *replica
	want  map[int]routes // 0: the table itself
}

// change inserts, replaces or deletes a route, or loads or clears a table.
func (w *vrfWorld) change() (vrf int, p netip.Prefix) {
	w.t.Helper()
	vrf = []int{0, 1, 2, 7, NumVRFIDs - 1}[w.rnd.IntN(5)]
	if vrf == 0 {
		p = change(w.t, w.rnd, w.table, w.want[0])
		if w.rnd.IntN(200) == 0 {
			require.NoError(w.t, w.table.Load(maps.All(w.want[0])))
		}
		return 0, p
	}
	want, v := w.want[vrf], w.table.VRF(vrf)
	p = randomPrefix(w.rnd, w.table.bits)
	if w.rnd.IntN(20) == 0 {
		p = netip.PrefixFrom(p.Addr(), w.rnd.IntN(2)).Masked()
	}
	switch _, ok := want[p]; {
	case w.rnd.IntN(100) == 0:
		v.Clear()
		clear(want)
	case w.rnd.IntN(50) == 0:
		want[p] = randomHop(w.rnd)
		maps.DeleteFunc(want, func(netip.Prefix, lookup.NextHopID) bool { return w.rnd.IntN(8) == 0 })
		require.NoError(w.t, v.Load(maps.All(want)))
	case ok && w.rnd.IntN(2) == 0:
		delete(want, p)
		if !v.Delete(p) {
			w.t.Fatalf("VRF %d: delete %v: no such route", vrf, p)
		}
	default:
		want[p] = randomHop(w.rnd)
		require.NoError(w.t, v.Insert(p, want[p]))
	}
	return vrf, p
}

// agree compares a VRF and the copy with the oracle for addresses.
func (w *vrfWorld) agree(vrf int, addrs ...netip.Addr) {
	w.t.Helper()
	if vrf != 0 && w.table.VRF(vrf).Len() != len(w.want[vrf]) {
		w.t.Fatalf("VRF %d: %d routes, want %d", vrf, w.table.VRF(vrf).Len(), len(w.want[vrf]))
	}
	for _, a := range addrs {
		p, nh, ok := w.want[vrf].Lookup(a)
		bits, got := w.table.WalkIn(vrf, keyOf(a))
		if ok != (got != 0) || got != nh || ok && bits != p.Bits() {
			w.t.Fatalf("VRF %d: %v: /%d %d, want %v %d %v", vrf, a, bits, got, p, nh, ok)
		}
		onCopy, copied, err := WalkCopy(vrf, a, func(i uint32) (uint32, error) { return w.copy.words[i], nil })
		if err != nil || onCopy != bits || copied != got {
			w.t.Fatalf("VRF %d: %v: copy /%d %d %v, want /%d %d", vrf, a, onCopy, copied, err, bits, got)
		}
	}
}

// Random changes of a table and its VRFs leave each with its own routes, also in a copy, and free all nodes in the
// end. Numbers without routes miss, whatever the other tables have.
func TestVRFsAgreeWithOracles(t *testing.T) {
	for _, bits := range []int{32, 128} {
		w := &vrfWorld{t: t, rnd: rand.New(rand.NewPCG(7, uint64(bits))), table: New(bits), copy: &replica{}, want: map[int]routes{}}
		w.table.Follow(w.copy)
		for _, vrf := range []int{0, 1, 2, 3, 7, NumVRFIDs - 1} {
			w.want[vrf] = routes{}
		}
		for range race.Fewer(6000) {
			vrf, p := w.change()
			w.agree(vrf, edges(p)...)
			if w.rnd.IntN(20) == 0 {
				for other := range w.want {
					w.agree(other, randomAddr(w.rnd, bits), p.Addr())
				}
			}
		}
		for vrf := range w.want {
			if vrf != 0 {
				w.table.VRF(vrf).Clear()
			}
		}
		clearAll(t, w.table, w.want[0])
	}
}

// An empty table keeps the routes of its VRFs, and its default route is none of theirs.
func TestVRFsAreIndependentOfTheTable(t *testing.T) {
	table := New(32)
	all, addr := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr("10.0.0.1")
	require.NoError(t, table.VRF(1).Insert(netip.MustParsePrefix("10.0.0.0/8"), 5))
	require.NoError(t, table.Insert(all, 9))
	for vrf, want := range []lookup.NextHopID{9, 5, 0} {
		if _, nh := table.WalkIn(vrf, keyOf(addr)); nh != want {
			t.Errorf("VRF %d: next hop %d, want %d", vrf, nh, want)
		}
	}
	table.Delete(all)
	if _, nh, ok := table.VRF(1).LookupPrefix(addr); nh != 5 || !ok {
		t.Errorf("with an empty table: next hop %d, %v", nh, ok)
	}
	require.NoError(t, table.VRF(1).Insert(all, 6)) // a default route needs no node
	table.VRF(1).Delete(netip.MustParsePrefix("10.0.0.0/8"))
	if _, nh, _ := table.VRF(1).LookupPrefix(addr); nh != 6 || table.Image().NodesInUse() != 0 {
		t.Errorf("default route of a VRF: next hop %d, %d nodes", nh, table.Image().NodesInUse())
	}
}

func TestInvalidRoutesLeaveVRFUnchanged(t *testing.T) {
	v, good := New(32).VRF(1), netip.MustParsePrefix("10.0.0.0/8")
	require.NoError(t, v.Insert(good, 7))
	bad := netip.MustParsePrefix("10.1.2.3/16")
	err := v.Load(func(yield func(netip.Prefix, lookup.NextHopID) bool) {
		_ = yield(netip.MustParsePrefix("11.0.0.0/8"), 1) && yield(bad, 1)
	})
	if err == nil || !strings.Contains(err.Error(), "did you mean") || v.Insert(bad, 1) == nil || v.Delete(bad) {
		t.Errorf("load: %v", err)
	}
	if _, nh, _ := v.LookupPrefix(good.Addr()); nh != 7 || v.Len() != 1 || v.table.Image().NodesInUse() != 1 {
		t.Errorf("next hop %d, %d routes, %d nodes", nh, v.Len(), v.table.Image().NodesInUse())
	}
}
