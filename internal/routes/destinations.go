package routes

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
)

// Destinations are the kinds of destinations.
var Destinations = []string{"uniform", "table", "zipf", "repeated"}

const (
	// popular is the number of different destinations of zipf.
	popular = 1 << 20
	// zipfExponent gives the most popular 0.1 % two thirds of all lookups.
	zipfExponent = 1.1
	// repeatedAddrs is the number of different destinations of repeated.
	repeatedAddrs = 16
)

// Destinations yields an infinite sequence of addresses:
//
//	uniform    any IPv4 address; any of 2000::/3
//	table      a random address inside a random prefix
//	zipf       a million of the latter; the n-th most popular with frequency 1/n^1.1
//	repeated   sixteen of them, round-robin
func (s *Set) Destinations(kind string, seed uint64) (iter.Seq[netip.Addr], error) {
	rnd := rand.New(rand.NewPCG(seed, uint64(s.Family)))
	if s.Len() == 0 && kind != "uniform" {
		return nil, fmt.Errorf("%s destinations: the table is empty", kind)
	}
	switch kind {
	case "uniform":
		return forever(func() netip.Addr {
			k := randomKey(rnd)
			if s.Family == IPv6 {
				k.hi = k.hi>>3 | 1<<61
			}
			return k.addr(s.Family)
		}), nil
	case "table":
		return forever(func() netip.Addr { return s.covered(rnd) }), nil
	case "zipf":
		addrs := s.coveredAddrs(rnd, popular)
		zipf := rand.NewZipf(rnd, zipfExponent, 1, popular-1)
		return forever(func() netip.Addr { return addrs[zipf.Uint64()] }), nil
	case "repeated":
		addrs := s.coveredAddrs(rnd, repeatedAddrs)
		i := 0
		return forever(func() netip.Addr { i++; return addrs[i%repeatedAddrs] }), nil
	}
	return nil, fmt.Errorf("unknown destinations %q: write uniform, table, zipf or repeated", kind)
}

func forever(next func() netip.Addr) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for yield(next()) {
		}
	}
}

// covered returns a random address inside a random prefix.
func (s *Set) covered(rnd *rand.Rand) netip.Addr {
	p := s.Prefixes[rnd.IntN(len(s.Prefixes))]
	return keyOf(p.Addr()).join(randomKey(rnd), p.Bits()).addr(s.Family)
}

func (s *Set) coveredAddrs(rnd *rand.Rand, n int) []netip.Addr {
	addrs := make([]netip.Addr, n)
	for i := range addrs {
		addrs[i] = s.covered(rnd)
	}
	return addrs
}

// Edges yields the first and last address of each prefix, and the addresses before and after it.
func (s *Set) Edges() iter.Seq[netip.Addr] {
	ones := key{^uint64(0), ^uint64(0)}
	return func(yield func(netip.Addr) bool) {
		for _, p := range s.Prefixes {
			first, last := p.Addr(), keyOf(p.Addr()).join(ones, p.Bits()).addr(s.Family)
			for _, a := range [...]netip.Addr{first.Prev(), first, last, last.Next()} {
				if a.IsValid() && !yield(a) {
					return
				}
			}
		}
	}
}
