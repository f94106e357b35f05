package routes

import (
	"math/rand/v2"
	"net/netip"
)

// collect calls next, which makes up a prefix, until n different ones are there.
func collect(f Family, n int, next func() (key, int)) []netip.Prefix {
	prefixes, seen := make([]netip.Prefix, 0, n), make(map[netip.Prefix]struct{}, n)
	for len(prefixes) < n {
		k, bits := next()
		p := k.prefix(f, bits)
		if _, twice := seen[p]; twice || !k.unicast(f) {
			continue
		}
		seen[p] = struct{}{}
		prefixes = append(prefixes, p)
	}
	return prefixes
}

// nested returns the prefixes of every length from 1 on that cover a random
// address, then those of another address, until there are n.
func nested(f Family, n int, rnd *rand.Rand) []netip.Prefix {
	k, bits := randomUnicast(f, rnd), 0
	return collect(f, n, func() (key, int) {
		if bits++; bits > f.Bits() {
			k, bits = randomUnicast(f, rnd), 1
		}
		return k, bits
	})
}

// adversarial returns n prefixes that cost the most memory.
//
// IPv4: /25 to /32, each in another /24 as long as there are such, so that a
// table of two levels needs a group for every one.
//
// IPv6: to /128, each leaving the path of another at a random bit, so that paths
// branch everywhere and compressing them wins little.
func adversarial(f Family, n int, rnd *rand.Rand) []netip.Prefix {
	if f == IPv4 {
		// An odd step visits each of the 2^24 groups once before any twice.
		group, step := rnd.Uint64(), rnd.Uint64()|1
		return collect(f, n, func() (key, int) {
			group += step
			return key{hi: group << 40}.join(randomKey(rnd), 24), 25 + rnd.IntN(8)
		})
	}
	const shortest = 20 // above it, all tables have room for every path
	var paths []key
	return collect(f, n, func() (key, int) {
		k := randomUnicast(f, rnd)
		leave := 3 // the bits that unicast addresses share
		if len(paths) > 0 {
			leave = shortest + rnd.IntN(128-shortest)
			k = paths[rnd.IntN(len(paths))].join(k, leave)
		}
		paths = append(paths, k)
		return k, max(leave, shortest) + 1 + rnd.IntN(128-max(leave, shortest))
	})
}

// dense returns n prefixes of all lengths beneath a few: /16 in IPv4, /64 in
// IPv6, so many that each holds at most 65,536.
func dense(f Family, n int, rnd *rand.Rand) []netip.Prefix {
	root, shortest := f.Bits()/2, f.Bits()/2+8
	roots := make([]key, n/65536+1)
	for i := range roots {
		roots[i] = randomUnicast(f, rnd)
	}
	return collect(f, n, func() (key, int) {
		k := roots[rnd.IntN(len(roots))].join(randomKey(rnd), root)
		if f == IPv6 { // side by side, not lost in 2^64 addresses
			k = k.join(key{}, root+20).join(randomKey(rnd), 128-4)
		}
		return k, shortest + 1 + rnd.IntN(f.Bits()-shortest)
	})
}
