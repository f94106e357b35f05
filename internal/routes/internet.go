package routes

import (
	"math"
	"math/rand/v2"
	"net/netip"
)

// lengths returns the number of routes per prefix length in the Internet's table: 901,899 of IPv4 and
// 160,147 of IPv6, as of 2025.
func lengths(f Family) []int {
	if f == IPv4 {
		return []int{
			8: 16, 9: 13, 10: 38, 11: 103, 12: 299, 13: 581, 14: 1203, 15: 2100,
			16: 13490, 17: 8235, 18: 13798, 19: 24870, 20: 42611, 21: 50750, 22: 108623, 23: 96510,
			24: 537698, 25: 20, 26: 3, 27: 11, 28: 18, 29: 17, 30: 3, 31: 3, 32: 886,
		}
	}
	return []int{
		16: 1, 19: 1, 20: 16, 21: 3, 22: 7, 23: 8,
		24: 30, 25: 8, 26: 15, 27: 20, 28: 193, 29: 4371, 30: 650, 31: 284,
		32: 22548, 33: 2926, 34: 2603, 35: 1043, 36: 5996, 37: 880, 38: 1617, 39: 1377,
		40: 13418, 41: 903, 42: 2301, 43: 1001, 44: 14365, 45: 1553, 46: 3039, 47: 3153,
		48: 75488, 49: 11, 50: 3, 52: 1, 55: 1, 56: 24, 58: 20, 60: 2,
		64: 184, 112: 2, 122: 1, 124: 4, 125: 9, 126: 19, 127: 42, 128: 6,
	}
}

func total(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// scale distributes n over the lengths in proportion to counts.
func scale(counts []int, n int) []int {
	scaled := make([]int, len(counts))
	sum, before, all := 0, 0, total(counts)
	for i, c := range counts {
		sum += c
		upTo := sum * n / all
		scaled[i], before = upTo-before, upTo
	}
	return scaled
}

// growth is the parameters of the generator. Operators announce adjacent blocks in runs; a run starts
// near an existing route, or elsewhere.
type growth struct {
	run    float64 // share of routes that continue a run: same length, next block
	wild   float64 // share of other routes that start elsewhere
	peer   float64 // share of the rest that are near a route of the same length
	shared int     // minimum of leading bits shared with the near route
	near   float64 // the smaller, the more bits are shared: shared + (length-shared) * uniform^near
}

// phase returns the parameters for the blocks of registries, or for more specific routes. They are
// fitted to the number of distinct parents per length in the real table (see the test).
func phase(f Family, length int) growth {
	switch {
	case f == IPv4 && length <= 22:
		return growth{run: 0.6, wild: 0.02, peer: 0.2, shared: 8, near: 1}
	case f == IPv4:
		return growth{run: 0.75, wild: 0.01, peer: 0.5, shared: 12, near: 0.7}
	case length <= 36:
		return growth{run: 0.4, wild: 0.045, peer: 0.5, shared: 16, near: 1}
	default:
		return growth{run: 0.6, wild: 0.01, peer: 0.8, shared: 24, near: 0.4}
	}
}

// elsewhere returns an address anywhere in IPv4, or in a registry's block in IPv6.
func elsewhere(f Family, rnd *rand.Rand) key {
	if f == IPv4 {
		return randomUnicast(f, rnd)
	}
	blocks := []struct {
		start uint64
		bits  int
	}{{0x2001, 16}, {0x2400, 12}, {0x2600, 12}, {0x2800, 12}, {0x2a00, 12}, {0x2a10, 12}, {0x2c00, 12}}
	b := blocks[rnd.IntN(len(blocks))]
	return key{hi: b.start << 48}.join(randomKey(rnd), b.bits)
}

// internet returns n prefixes with the lengths of the Internet's table. Short ones are placed first, so
// that long ones cluster in them.
func internet(f Family, n int, rnd *rand.Rand) []netip.Prefix {
	type placed struct {
		at   key
		bits int
	}
	all := make([]placed, 0, n)
	prefixes, seen := make([]netip.Prefix, 0, n), make(map[netip.Prefix]struct{}, n)
	for length, count := range scale(lengths(f), n) {
		g, first, running := phase(f, length), len(all), false
		var at key
		for len(all)-first < count {
			if running = running && rnd.Float64() < g.run; running {
				at, running = at.next(length)
			}
			if !running {
				at = elsewhere(f, rnd)
				if len(all) > 0 && rnd.Float64() >= g.wild {
					among := all
					if len(all) > first && rnd.Float64() < g.peer {
						among = all[first:]
					}
					near := among[rnd.IntN(len(among))]
					share := g.shared + int(float64(length-g.shared+1)*math.Pow(rnd.Float64(), g.near))
					at = near.at.join(randomKey(rnd), min(share, near.bits))
				}
				running = true
			}
			p := at.prefix(f, length)
			if _, twice := seen[p]; twice || !at.unicast(f) {
				continue
			}
			seen[p] = struct{}{}
			prefixes, all = append(prefixes, p), append(all, placed{keyOf(p.Addr()), length})
		}
	}
	return prefixes
}
