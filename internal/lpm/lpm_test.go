package lpm

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/lookup"
)

// randomPrefix makes prefixes that are often nested.
func randomPrefix(rnd *rand.Rand, bits int) netip.Prefix {
	b := make([]byte, bits/8)
	for i := range b {
		b[i] = byte(rnd.IntN(3)) << 6
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, rnd.IntN(bits+1)).Masked()
}

func randomAddr(rnd *rand.Rand, bits int) netip.Addr {
	b := randomPrefix(rnd, bits).Addr().AsSlice()
	b[rnd.IntN(len(b))] ^= byte(rnd.Uint32())
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Inserts, replacements and deletions at random agree with the oracle, and so
// does a table that was loaded at once.
func TestAgreesWithTheOracle(t *testing.T) {
	for _, bits := range []int{32, 128} {
		rnd := rand.New(rand.NewPCG(1, uint64(bits)))
		table, want := New(bits), oracle.Routes[lookup.NextHop]{}
		for n := range 20_000 {
			p, nh := randomPrefix(rnd, bits), lookup.NextHop(1+rnd.IntN(int(lookup.MaxNextHop)))
			if _, there := want[p]; there && rnd.IntN(2) == 0 {
				delete(want, p)
				if !table.Delete(p) {
					t.Fatalf("delete %v: not there", p)
				}
			} else {
				want[p] = nh
				if err := table.Insert(p, nh); err != nil {
					t.Fatal(err)
				}
			}
			if n%40 == 0 {
				agree(t, rnd, bits, table, want)
			}
		}
		loaded := New(bits)
		if err := loaded.Load(maps.All(want)); err != nil {
			t.Fatal(err)
		}
		agree(t, rnd, bits, loaded, want)
		for _, p := range slices.Collect(maps.Keys(want)) {
			if !table.Delete(p) || table.Delete(p) {
				t.Fatalf("delete %v: not there, or there twice", p)
			}
		}
		if table.Len() != 0 {
			t.Errorf("%d routes are left of none", table.Len())
		}
	}
}

func agree(t *testing.T, rnd *rand.Rand, bits int, table *Table, want oracle.Routes[lookup.NextHop]) {
	t.Helper()
	if table.Len() != len(want) {
		t.Fatalf("%d routes, want %d", table.Len(), len(want))
	}
	for range 20 {
		a := randomAddr(rnd, bits)
		wantP, wantNH, wantOK := want.Lookup(a)
		p, nh, ok := table.LookupPrefix(a)
		direct, _ := table.Trie().Lookup(a)
		if ok != wantOK || ok && (p != wantP || nh != wantNH) || direct != wantNH {
			t.Fatalf("%v: %v %d %v and %d, want %v %d %v", a, p, nh, ok, direct, wantP, wantNH, wantOK)
		}
	}
}

func TestBadRoutesLeaveTheTableAsItWas(t *testing.T) {
	table := New(32)
	good := netip.MustParsePrefix("10.0.0.0/8")
	if err := table.Insert(good, 7); err != nil {
		t.Fatal(err)
	}
	for want, route := range map[string]struct {
		p  netip.Prefix
		nh lookup.NextHop
	}{
		"did you mean 10.1.0.0/16?":                 {netip.MustParsePrefix("10.1.2.3/16"), 1},
		"not a prefix of 32-bit":                    {netip.MustParsePrefix("fd00::/8"), 1},
		"invalid Prefix":                            {netip.Prefix{}, 1},
		"next hop 0 is not between 1 and 1048575":   {good, lookup.Miss},
		"next hop 1048576 is not between 1 and 104": {good, lookup.MaxNextHop + 1},
	} {
		load := table.Load(func(yield func(netip.Prefix, lookup.NextHop) bool) {
			_ = yield(netip.MustParsePrefix("11.0.0.0/8"), 1) && yield(route.p, route.nh)
		})
		for _, err := range []error{table.Insert(route.p, route.nh), load} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v → %d: %v, want %q", route.p, route.nh, err, want)
			}
		}
		if _, nh, _ := table.LookupPrefix(good.Addr()); nh != 7 || table.Len() != 1 {
			t.Fatalf("after %v → %d: the table has changed", route.p, route.nh)
		}
	}
}

// A reader sees the old or the new route, never another.
func TestReadersBesideAWriter(t *testing.T) {
	table := New(32)
	wide, narrow := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16")
	if err := table.Insert(wide, 1); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan lookup.NextHop)
	addr := netip.MustParseAddr("10.1.2.3")
	for range 2 {
		go func() {
			for {
				nh, _ := table.Trie().Lookup(addr)
				select {
				case <-stop:
					done <- 0
					return
				default:
				}
				if nh < 1 || nh > 3 {
					done <- nh
					return
				}
			}
		}()
	}
	for range 20_000 {
		_ = table.Insert(narrow, 2)
		_ = table.Insert(narrow, 3)
		table.Delete(narrow)
	}
	close(stop)
	for range 2 {
		if nh := <-done; nh != 0 {
			t.Errorf("a reader saw next hop %d", nh)
		}
	}
}
