// Package routes generates routing tables and destinations for tests and benchmarks: the Internet's
// table, similar ones of any size, and worst cases.
//
// Everything is a function of a seed. Only Real reads a file; without it, it returns a synthetic table
// of the same size.
package routes

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/warproute/warproute/lookup"
)

// Family is an IP version.
type Family int

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// String returns IPv4 or IPv6.
func (f Family) String() string { return fmt.Sprintf("IPv%d", int(f)) }

// Bits returns the length of an address.
func (f Family) Bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}

// NextHops is the number of different next hops in a Set.
const NextHops = 4096

// MaxRoutes is the size of the largest synthetic Set.
const MaxRoutes = 4 << 20

// Set is the routes of a table: distinct prefixes of one family, sorted by address, then length.
type Set struct {
	Family   Family
	Name     string
	Source   string // of the prefixes, for reports
	Prefixes []netip.Prefix
	Hops     []lookup.NextHopID // of the prefix at the same index
}

// New returns the Set of a name: real, internet, nested, adversarial or dense. The latter four have n
// routes; 0 means the size of the Internet's table.
func New(name string, f Family, n int, seed uint64) (*Set, error) {
	if n < 0 || n > MaxRoutes {
		return nil, fmt.Errorf("table of %d routes: 1 to %d are possible", n, MaxRoutes)
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
	return nil, fmt.Errorf("unknown table %q: write one of %v", name, Names())
}

// Names returns the names of all tables.
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
	{"internet", "prefix lengths and clustering of the Internet's table", internet},
	{"nested", "every length from 1 on, nested, down to random addresses", nested},
	{"adversarial", "long prefixes spread widely, so that each needs its own nodes", adversarial},
	{"dense", "long prefixes of every length under a few short ones", dense},
}

// FromPrefixes returns the Set of those prefixes that are of a family. source describes their origin.
func FromPrefixes(f Family, name, source string, prefixes []netip.Prefix, seed uint64) *Set {
	var own []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().BitLen() == f.Bits() {
			own = append(own, p.Masked())
		}
	}
	return newSet(f, name, source, own, seed)
}

// newSet sorts the prefixes in place and assigns random next hops.
func newSet(f Family, name, source string, prefixes []netip.Prefix, seed uint64) *Set {
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	prefixes = slices.Compact(prefixes)
	s := &Set{Family: f, Name: name, Source: source, Prefixes: prefixes, Hops: make([]lookup.NextHopID, len(prefixes))}
	rnd := rand.New(rand.NewPCG(seed, 0x686f7073))
	for i := range s.Hops {
		s.Hops[i] = lookup.NextHopID(1 + rnd.IntN(NextHops))
	}
	return s
}

// Len returns the number of routes.
func (s *Set) Len() int { return len(s.Prefixes) }

// All yields the routes in order.
func (s *Set) All() iter.Seq2[netip.Prefix, lookup.NextHopID] {
	return func(yield func(netip.Prefix, lookup.NextHopID) bool) {
		for i, p := range s.Prefixes {
			if !yield(p, s.Hops[i]) {
				return
			}
		}
	}
}
