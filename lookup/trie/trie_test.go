package trie

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup"
)

type routes = oracle.Routes[lookup.NextHopID]

// randomPrefix returns prefixes that are often nested, and seldom short enough to cover
// much of the root.
func randomPrefix(rnd *rand.Rand, bits int) netip.Prefix {
	b := make([]byte, bits/8)
	for i := range b {
		b[i] = byte(rnd.IntN(3)) << 6
	}
	a, _ := netip.AddrFromSlice(b)
	length := 10 + rnd.IntN(bits-9)
	if rnd.IntN(100) == 0 {
		length = rnd.IntN(10)
	}
	return netip.PrefixFrom(a, length).Masked()
}

func randomAddr(rnd *rand.Rand, bits int) netip.Addr {
	b := randomPrefix(rnd, bits).Addr().AsSlice()
	b[rnd.IntN(len(b))] ^= byte(rnd.Uint32())
	a, _ := netip.AddrFromSlice(b)
	return a
}

func randomHop(rnd *rand.Rand) lookup.NextHopID {
	return lookup.NextHopID(1 + rnd.IntN(int(lookup.MaxNextHopID)))
}

// edges returns the first and the last address of a prefix and their outer neighbors.
func edges(p netip.Prefix) []netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return slices.DeleteFunc([]netip.Addr{p.Addr().Prev(), p.Addr(), last, last.Next()}, func(a netip.Addr) bool { return !a.IsValid() })
}

// agree compares the table with the oracle for addrs.
func agree(t *testing.T, table *Table, want routes, addrs ...netip.Addr) {
	t.Helper()
	if table.Len() != len(want) {
		t.Fatalf("%d routes, want %d", table.Len(), len(want))
	}
	for _, a := range addrs {
		wantP, wantNH, wantOK := want.Lookup(a)
		if p, nh, ok := table.LookupPrefix(a); ok != wantOK || ok && (p != wantP || nh != wantNH) {
			t.Fatalf("%v: %v %d %v, want %v %d %v", a, p, nh, ok, wantP, wantNH, wantOK)
		}
	}
}

// change inserts, replaces or deletes a random route in the table and the oracle.
func change(t *testing.T, rnd *rand.Rand, table *Table, want routes) netip.Prefix {
	t.Helper()
	p, nh := randomPrefix(rnd, table.bits), randomHop(rnd)
	if _, ok := want[p]; ok && rnd.IntN(2) == 0 {
		delete(want, p)
		if !table.Delete(p) {
			t.Fatalf("delete %v: no such route", p)
		}
		return p
	}
	want[p] = nh
	require.NoError(t, table.Insert(p, nh))
	return p
}

// clearAll deletes every route and checks that the image is empty.
func clearAll(t *testing.T, table *Table, want routes) {
	t.Helper()
	im := table.Image()
	for _, p := range slices.Collect(maps.Keys(want)) {
		if !table.Delete(p) || table.Delete(p) {
			t.Fatalf("delete %v: missing, or deleted twice", p)
		}
	}
	if n := table.Len(); n != 0 {
		t.Errorf("%d routes in an empty table", n)
	}
	if n := im.NodesInUse(); n != 0 {
		t.Errorf("%d nodes in use without a route", n)
	}
	_ = table.View(func(words []uint32) error {
		for i, w := range words {
			if w != 0 && i != Generation {
				t.Fatalf("word %d of an empty table is %#x", i, w)
			}
		}
		return nil
	})
}

// Tables agree with the oracle after random changes, at the edges of changed prefixes and
// elsewhere, and after a Load.
func TestTableAgreesWithOracle(t *testing.T) {
	for bits, changes := range map[int]int{32: 20_000, 128: 6000} {
		if race.Enabled {
			changes /= 10
		}
		rnd := rand.New(rand.NewPCG(1, uint64(bits)))
		table, want := New(bits), routes{}
		for n := range changes {
			p := change(t, rnd, table, want)
			if n%40 == 0 {
				agree(t, table, want, edges(p)...)
				for range 10 {
					agree(t, table, want, randomAddr(rnd, bits))
				}
			}
		}
		loaded := New(bits)
		require.NoError(t, loaded.Load(maps.All(want)))
		for p := range want {
			if rnd.IntN(20) == 0 {
				agree(t, loaded, want, edges(p)...)
			}
		}
		clearAll(t, table, want)
		if err := table.Load(maps.All(want)); err != nil { // into an emptied table
			t.Fatal(err)
		}
		agree(t, table, want, randomAddr(rnd, bits))
		clearAll(t, table, want)
	}
}

// An image equals, except for the positions of nodes, the image of a Load of the same
// routes, whatever the changes before.
func TestImageDependsOnRoutesOnly(t *testing.T) {
	for _, bits := range []int{32, 128} {
		rnd := rand.New(rand.NewPCG(2, uint64(bits)))
		table, want := New(bits), routes{}
		for range 4 {
			for range race.Fewer(1500) {
				change(t, rnd, table, want)
			}
			loaded := New(bits)
			require.NoError(t, loaded.Load(maps.All(want)))
			a, b := table.Image(), loaded.Image()
			if a.NodesInUse() != b.NodesInUse() || a.Default() != b.Default() {
				t.Fatalf("%d nodes, default %#x; loaded: %d, %#x", a.NodesInUse(), a.Default(), b.NodesInUse(), b.Default())
			}
			sameWords(t, a, b, 0, 0, RootWords)
			runtime.KeepAlive(b)
		}
	}
}

func sameWords(t *testing.T, a, b *Image, i, j, n uint32) {
	t.Helper()
	for k := range n {
		v, w := a.words[i+k], b.words[j+k]
		switch {
		case isReference(v) && isReference(w):
			sameWords(t, a, b, node(v), node(w), NodeWords)
		case v != w:
			t.Fatalf("words %d and %d: %#x, loaded %#x", i+k, j+k, v, w)
		}
	}
}

func TestInvalidRoutesLeaveTableUnchanged(t *testing.T) {
	table := New(32)
	good := netip.MustParsePrefix("10.0.0.0/8")
	require.NoError(t, table.Insert(good, 7))
	for want, route := range map[string]struct {
		p  netip.Prefix
		nh lookup.NextHopID
	}{
		"did you mean 10.1.0.0/16?":                 {netip.MustParsePrefix("10.1.2.3/16"), 1},
		"not a prefix of 32-bit":                    {netip.MustParsePrefix("fd00::/8"), 1},
		"invalid Prefix":                            {netip.Prefix{}, 1},
		"next hop 0 is not between 1 and 1048575":   {good, lookup.Miss},
		"next hop 1048576 is not between 1 and 104": {good, lookup.MaxNextHopID + 1},
	} {
		load := table.Load(func(yield func(netip.Prefix, lookup.NextHopID) bool) {
			_ = yield(netip.MustParsePrefix("11.0.0.0/8"), 1) && yield(route.p, route.nh)
		})
		for _, err := range []error{table.Insert(route.p, route.nh), load} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v → %d: %v, want %q", route.p, route.nh, err, want)
			}
		}
		if _, nh, _ := table.LookupPrefix(good.Addr()); nh != 7 || table.Len() != 1 {
			t.Fatalf("after %v → %d: the table changed", route.p, route.nh)
		}
	}
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("10.1.2.3/8")} {
		if table.Delete(p) {
			t.Errorf("delete %v: reported a route", p)
		}
	}
}
