package policy

import "math/bits"

// PlainCache is a worker's cache of address pairs between which packets pass in plaintext: a table protects,
// discards or refuses no part of their traffic, whatever its protocol and ports. It keeps packets that a
// tunnel may protect apart from others before they are looked up.
//
// Like Cache, its keys are networks: addresses masked to the longest prefix length of any policy.
type PlainCache struct {
	of       *Table
	families [2]plainFamily
	sets     [plainSets]plainSet
}

// plainFamily has what a pair of a family is compared by.
type plainFamily struct {
	empty         bool // no policies
	common, where key  // destinations outside of common, where where has ones, have no policy
	src, dst      key  // masks
}

// plainSet is two entries, the newer first. An entry is the lower bits of a pair's hash with the answer in
// bit 0, above that the family plus 1; 0: no entry. Pairs of IPv6 networks with the same hash, 1 in 2^52,
// have the same answer.
type plainSet [2]uint64

const (
	plainSetsBits = 12
	plainSets     = 1 << plainSetsBits
	isPlain       = 1
)

// Use makes the cache answer by a table. It empties the cache if the table is another one.
func (c *PlainCache) Use(t *Table) {
	if c.of == t {
		return
	}
	c.of = t
	clear(c.sets[:])
	for family := range c.families {
		r, m := &t.roots[family], &t.keyMasks[family]
		f := plainFamily{empty: r.trie == 0, common: r.key, where: r.mask, src: key{hi: m.src}, dst: key{hi: m.dst}}
		if !m.coarse {
			f.src.lo, f.dst.lo = ^uint64(0), ^uint64(0)
		}
		c.families[family] = f
	}
}

// LookupIPv4 returns the set of pairs between whose addresses packets pass in plaintext, a bit each. There are
// at most 64. A pair is a source in the upper half, and a destination, in host byte order.
func (c *PlainCache) LookupIPv4(pairs []uint64) (plain uint64) {
	f := &c.families[ipv4Root]
	if f.empty {
		return ^uint64(0)
	}
	common, where, mask := f.common.hi>>32, f.where.hi>>32, f.src.hi|f.dst.hi>>32
	last, x := ^uint64(0), uint64(0) // the pair before, which is often the same, and its entry
	for i, pair := range pairs {
		if (pair^common)&where != 0 {
			plain |= 1 << (i & 63)
			continue
		}
		if pair &= mask; pair != last || i == 0 {
			hash := pair * golden
			set, entry := &c.sets[hash>>(64-plainSetsBits)], hash<<plainSetsBits|(ipv4Root+1)<<1
			if x = set[0]; x&^isPlain != entry {
				if x = set[1]; x&^isPlain != entry {
					flow := IPv4Flow(uint32(pairs[i]>>32), uint32(pairs[i]), HiddenProtocol, HiddenPort, HiddenPort)
					x = c.add(set, entry, &flow)
				}
			}
			last = pair
		}
		plain |= x & isPlain << (i & 63)
	}
	return plain
}

// LookupIPv6 is LookupIPv4 for one pair, in network byte order.
func (c *PlainCache) LookupIPv6(src, dst *[16]byte) bool {
	f := &c.families[ipv6Root]
	s, d := ipv6Key(src), ipv6Key(dst)
	if f.empty || (d.hi^f.common.hi)&f.where.hi|(d.lo^f.common.lo)&f.where.lo != 0 {
		return true
	}
	hash := (s.hi & f.src.hi) * golden
	hash = (bits.RotateLeft64(hash, 29) ^ d.hi&f.dst.hi) * golden
	if f.src.lo != 0 {
		hash = (bits.RotateLeft64(hash, 29) ^ s.lo) * golden
		hash = (bits.RotateLeft64(hash, 29) ^ d.lo) * golden
	}
	set, entry := &c.sets[hash>>(64-plainSetsBits)], hash<<plainSetsBits|(ipv6Root+1)<<1
	x := set[0]
	if x&^isPlain != entry {
		if x = set[1]; x&^isPlain != entry {
			flow := IPv6Flow(src, dst, HiddenProtocol, HiddenPort, HiddenPort)
			x = c.add(set, entry, &flow)
		}
	}
	return x&isPlain != 0
}

// add looks a flow up, and stores and returns its entry. Hidden ports match every policy that protects or
// discards a part of the traffic.
func (c *PlainCache) add(set *plainSet, entry uint64, f *Flow) uint64 {
	if policy, v := c.of.Lookup(f); policy == None || v.Action() == Bypass {
		entry |= isPlain
	}
	set[1], set[0] = set[0], entry
	return entry
}
