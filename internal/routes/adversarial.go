package routes

import (
	"math/rand/v2"
	"net/netip"
)

// collect calls next for prefixes until there are n different ones.
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

// adversarial returns n prefixes that need the most memory.
//
// IPv4: /25 to /32, each in a different /24 while there are any, so that a table of two levels needs a
// second-level node for each.
//
// IPv6: up to /128, each branching from the path of another at a random bit, so that path compression
// saves little.
func adversarial(f Family, n int, rnd *rand.Rand) []netip.Prefix {
	if f == IPv4 {
		// An odd step visits all 2^24 blocks before it repeats one.
		group, step := rnd.Uint64(), rnd.Uint64()|1
		return collect(f, n, func() (key, int) {
			group += step
			return key{hi: group << 40}.join(randomKey(rnd), 24), 25 + rnd.IntN(8)
		})
	}
	const shortest = 20 // all tables have room for every shorter path
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

// dense returns n prefixes of all lengths under a few: /16 in IPv4, /64 in IPv6, each with at most
// 65,536 of them.
func dense(f Family, n int, rnd *rand.Rand) []netip.Prefix {
	root, shortest := f.Bits()/2, f.Bits()/2+8
	roots := make([]key, n/65536+1)
	for i := range roots {
		roots[i] = randomUnicast(f, rnd)
	}
	return collect(f, n, func() (key, int) {
		k := roots[rnd.IntN(len(roots))].join(randomKey(rnd), root)
		if f == IPv6 { // adjacent, in few of the 2^64 addresses
			k = k.join(key{}, root+20).join(randomKey(rnd), 128-4)
		}
		return k, shortest + 1 + rnd.IntN(f.Bits()-shortest)
	})
}
