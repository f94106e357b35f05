// Package routes makes the tables and the destinations that tests and benchmarks
// look up: the internet's table, ones that look like it at any size, and ones
// that nobody has but an adversary.
//
// Everything is a function of a seed. Only Real reads a file, and where that is
// absent it says so and returns a table of the same size and shape.
package routes

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/lookup"
)

// Family is a version of IP.
type Family int

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// String is the family's name: IPv4, IPv6.
func (f Family) String() string { return fmt.Sprintf("IPv%d", int(f)) }

// Bits is the length of an address.
func (f Family) Bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}

// NextHops is how many different next hops the routes of a Set have.
const NextHops = 4096

// MaxRoutes is the size of the largest synthetic Set.
const MaxRoutes = 4 << 20

// Set is a table's routes: distinct prefixes of one family, ascending by address
// and then length.
type Set struct {
	Family   Family
	Name     string
	Source   string // where the prefixes are from, for a report
	Prefixes []netip.Prefix
	Hops     []lookup.NextHop // of the prefix at the same index
}

// New returns the Set of a name: real, internet, nested, adversarial or dense,
// the latter four with n routes. n of 0 is as many as the internet has.
func New(name string, f Family, n int, seed uint64) (*Set, error) {
	if n < 0 || n > MaxRoutes {
		return nil, fmt.Errorf("make a table of %d routes: 1 to %d are possible", n, MaxRoutes)
	}
	if name == "real" {
		return Real(f, seed)
	}
	if n == 0 {
		n = total(lengths(f))
	}
	for _, s := range synthetic {
		if s.name == name {
			rnd := rand.New(rand.NewPCG(seed, uint64(f)))
			return newSet(f, name, fmt.Sprintf("synthetic, seed %d: %s", seed, s.about), s.prefixes(f, n, rnd), seed), nil
		}
	}
	return nil, fmt.Errorf("make a table %q: it is one of %v", name, Names())
}

// Names lists the tables that New makes.
func Names() []string {
	names := []string{"real"}
	for _, s := range synthetic {
		names = append(names, s.name)
	}
	return names
}

var synthetic = []struct {
	name, about string
	prefixes    func(f Family, n int, rnd *rand.Rand) []netip.Prefix
}{
	{"internet", "prefix lengths and clustering as in the internet's table", internet},
	{"nested", "every length from 1 on, one in another, down to random addresses", nested},
	{"adversarial", "long prefixes spread wide, so that every one needs nodes of its own", adversarial},
	{"dense", "long prefixes of every length, side by side under a few short ones", dense},
}

// FromPrefixes returns the Set of the given prefixes of one family, whatever the
// others are. source says where they are from.
func FromPrefixes(f Family, name, source string, prefixes []netip.Prefix, seed uint64) *Set {
	var own []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().BitLen() == f.Bits() {
			own = append(own, p.Masked())
		}
	}
	return newSet(f, name, source, own, seed)
}

// newSet sorts the prefixes in place and gives each a random next hop.
func newSet(f Family, name, source string, prefixes []netip.Prefix, seed uint64) *Set {
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	prefixes = slices.Compact(prefixes)
	s := &Set{Family: f, Name: name, Source: source, Prefixes: prefixes, Hops: make([]lookup.NextHop, len(prefixes))}
	rnd := rand.New(rand.NewPCG(seed, 0x686f7073))
	for i := range s.Hops {
		s.Hops[i] = lookup.NextHop(1 + rnd.IntN(NextHops))
	}
	return s
}

// Len is the number of routes.
func (s *Set) Len() int { return len(s.Prefixes) }

// All yields the routes in order.
func (s *Set) All() iter.Seq2[netip.Prefix, lookup.NextHop] {
	return func(yield func(netip.Prefix, lookup.NextHop) bool) {
		for i, p := range s.Prefixes {
			if !yield(p, s.Hops[i]) {
				return
			}
		}
	}
}
