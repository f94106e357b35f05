package routes

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

var families = []Family{IPv4, IPv6}

var names = []string{"internet", "nested", "adversarial", "dense"}

func mustNew(t *testing.T, name string, f Family, n int, seed uint64) *Set {
	t.Helper()
	s, err := New(name, f, n, seed)
	require.NoError(t, err)
	return s
}

func TestSetsAreValidDistinctAndComplete(t *testing.T) {
	for _, f := range families {
		for _, name := range names {
			for _, n := range []int{1, 33, 20_000} {
				s := mustNew(t, name, f, n, 1)
				if s.Len() != n || len(s.Hops) != n {
					t.Errorf("%v %s: %d prefixes and %d next hops, want %d", f, name, s.Len(), len(s.Hops), n)
				}
				for i, p := range s.Prefixes {
					if p != p.Masked() || p.Addr().BitLen() != f.Bits() {
						t.Fatalf("%v %s: %v is no prefix of the family", f, name, p)
					}
					if i > 0 && s.Prefixes[i-1].Compare(p) >= 0 {
						t.Fatalf("%v %s: %v and then %v", f, name, s.Prefixes[i-1], p)
					}
					if hop := s.Hops[i]; hop < 1 || hop > NextHops {
						t.Fatalf("%v %s: %v has next hop %d", f, name, p, hop)
					}
				}
			}
		}
	}
}

func TestSetsDependOnTheSeedAlone(t *testing.T) {
	for _, f := range families {
		for _, name := range names {
			a, b, c := mustNew(t, name, f, 5000, 1), mustNew(t, name, f, 5000, 1), mustNew(t, name, f, 5000, 2)
			if !slices.Equal(a.Prefixes, b.Prefixes) || !slices.Equal(a.Hops, b.Hops) {
				t.Errorf("%v %s: seed 1 makes two different tables", f, name)
			}
			if slices.Equal(a.Prefixes, c.Prefixes) || slices.Equal(a.Hops, c.Hops) {
				t.Errorf("%v %s: seeds 1 and 2 make the same table", f, name)
			}
		}
	}
}

// parents returns the number of different prefixes of a length that cover longer ones.
func parents(s *Set, length int) int {
	n, last := 0, netip.Prefix{}
	for _, p := range s.Prefixes { // ascending, so that those of one parent come together
		if parent := keyOf(p.Addr()).prefix(s.Family, length); p.Bits() > length && parent != last {
			n, last = n+1, parent
		}
	}
	return n
}

func TestInternetHasTheRealTablesShape(t *testing.T) {
	// As counted in the real table: what the size of a trie depends on.
	real := map[Family]map[int]int{
		IPv4: {8: 215, 12: 2928, 16: 25398, 20: 140640},
		IPv6: {20: 610, 24: 7224, 28: 18708, 32: 10906, 36: 14590, 40: 19078, 44: 25903},
	}
	for _, f := range families {
		s := mustNew(t, "internet", f, 0, 1)
		got := make([]int, f.Bits()+1)
		for _, p := range s.Prefixes {
			got[p.Bits()]++
		}
		if want := lengths(f); !slices.Equal(got[:len(want)], want) {
			t.Errorf("%v: routes by length %v, want %v", f, got, want)
		}
		for length, want := range real[f] {
			n := parents(s, length)
			t.Logf("%v: %d different /%d above longer prefixes, in the real table %d", f, n, length, want)
			if n < want/2 || n > want*2 {
				t.Errorf("%v: %d different /%d above longer prefixes, the real table has %d", f, n, length, want)
			}
		}
	}
}

func TestScaleKeepsTheSum(t *testing.T) {
	for _, n := range []int{1, 7, 160_147, 1_000_000} {
		if got := total(scale(lengths(IPv6), n)); got != n {
			t.Errorf("%d routes of %d", got, n)
		}
	}
	if double := scale(lengths(IPv4), 2*901_899); double[24] != 2*537_698 {
		t.Errorf("%d /24 in a table of twice the size, want %d", double[24], 2*537_698)
	}
}

func TestNestedHasEveryLengthOnOnePath(t *testing.T) {
	for _, f := range families {
		s := mustNew(t, "nested", f, f.Bits(), 1)
		for i, p := range s.Prefixes[1:] {
			if up := s.Prefixes[i]; up.Bits()+1 != p.Bits() || !up.Contains(p.Addr()) {
				t.Errorf("%v is not right above %v", up, p)
			}
		}
	}
}

func TestAdversarialSharesNoNodes(t *testing.T) {
	if n := parents(mustNew(t, "adversarial", IPv4, 50_000, 1), 24); n != 50_000 {
		t.Errorf("IPv4: 50000 routes in %d groups", n)
	}
	s := mustNew(t, "adversarial", IPv6, 50_000, 1)
	for length, least := range map[int]int{32: 1_000, 48: 5_000, 64: 10_000, 96: 10_000} {
		if n := parents(s, length); n < least {
			t.Errorf("IPv6: 50000 routes pass through %d different /%d, want at least %d", n, length, least)
		}
	}
	if !slices.ContainsFunc(s.Prefixes, netip.Prefix.IsSingleIP) {
		t.Error("IPv6: no /128")
	}
}

func TestDenseHasFewParents(t *testing.T) {
	for _, f := range families {
		if n := parents(mustNew(t, "dense", f, 100_000, 1), f.Bits()/2); n != 2 {
			t.Errorf("%v: beneath %d prefixes, want 2", f, n)
		}
	}
}

func TestDestinations(t *testing.T) {
	const n = 20_000
	for _, f := range families {
		s := mustNew(t, "internet", f, 1000, 1)
		for _, test := range []struct {
			kind     string
			covered  bool
			min, max int // different addresses
		}{
			{"uniform", false, n - 100, n},
			{"table", true, n - 1000, n},
			{"zipf", true, n / 20, n / 2},
			{"repeated", true, repeatedAddrs, repeatedAddrs},
		} {
			draw := func(seed uint64) []netip.Addr {
				seq, err := s.Destinations(test.kind, seed)
				require.NoError(t, err)
				var out []netip.Addr
				for a := range seq {
					if out = append(out, a); len(out) == n {
						break
					}
				}
				return out
			}
			first := draw(1)
			if !slices.Equal(first, draw(1)) || slices.Equal(first, draw(2)) {
				t.Errorf("%v %s: the seed does not decide", f, test.kind)
			}
			different := map[netip.Addr]bool{}
			for _, a := range first {
				different[a] = true
				if a.BitLen() != f.Bits() || f == IPv6 && a.As16()[0]>>5 != 1 {
					t.Fatalf("%v %s: %v", f, test.kind, a)
				}
			}
			if len(different) < test.min || len(different) > test.max {
				t.Errorf("%v %s: %d different of %d addresses, want %d to %d", f, test.kind, len(different), n, test.min, test.max)
			}
			for _, a := range first[:1000] {
				if test.covered && !slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
					t.Fatalf("%v %s: no prefix covers %v", f, test.kind, a)
				}
			}
		}
		if _, err := s.Destinations("unknown", 1); err == nil || !strings.Contains(err.Error(), "uniform, table") {
			t.Errorf("unknown destinations: %v", err)
		}
	}
}

func TestEdges(t *testing.T) {
	s := FromPrefixes(IPv4, "test", "", []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::/0"), netip.MustParsePrefix("255.255.255.255/32"),
	}, 1)
	var got []string
	for a := range s.Edges() {
		got = append(got, a.String())
	}
	want := "0.0.0.0 127.255.255.255 128.0.0.0 10.0.255.255 10.1.0.0 10.1.255.255 10.2.0.0 255.255.255.254 255.255.255.255 255.255.255.255"
	if strings.Join(got, " ") != want {
		t.Errorf("edges %v, want %s", got, want)
	}
}

func TestNewRejectsInvalidTables(t *testing.T) {
	for name, n := range map[string]int{"internet": MaxRoutes + 1, "nested": -1, "martian": 10} {
		if _, err := New(name, IPv4, n, 1); err == nil {
			t.Errorf("%s of %d routes: no error", name, n)
		}
	}
}
