package lookup6

import (
	"math/bits"

	"github.com/warproute/warproute/lookup"
)

const lengthsPaper = "Waldvogel, Varghese, Turner, Plattner: Scalable High Speed IP Routing Lookups. SIGCOMM 1997"

// Lengths is a binary search over the prefix lengths, with a hash table of all
// prefixes. Where a search for a longer prefix has to come by a length at which
// it has none there is a marker, with the answer for those that find nothing
// longer (so there is no way back).
//
// It is the paper's last variant, rope search: each entry names the lengths to
// try below it, as long as nothing is found at one; what is found brings its own.
type Lengths struct {
	upper hashes
	lower []hashes
	bytes int
}

// hashes is a table of prefixes of 64-bit keys.
type hashes struct {
	slots []slot // open addressing
	ropes []rope // different ones
	whole slot   // for the prefix of length 0, where every search begins
}

// rope is a set of lengths to try, the longest first: length n is bit n-1.
type rope uint64

// next is the length to try next, 0 if there is none.
func (r rope) next() int { return bits.Len64(uint64(r)) }

// without is what is left to try, after a length.
func (r rope) without(length int) rope { return r &^ (1 << ((length - 1) & 63)) }

// slot is 16 bytes, a quarter of a cache line.
type slot struct {
	key uint64
	// entry is, from its lowest bit, the value (32 bits), the length (7), whether a
	// prefix that belongs in this slot is further on (1), the rope's number (24).
	// An entry of 0 is none.
	entry uint64
}

const (
	lengthShift = 32
	displaced   = 1 << 39
	ropeShift   = 40
)

func (s *slot) length() uint64 { return s.entry >> lengthShift & 127 }

// differs is 0 if s is the entry of the prefix.
func (s *slot) differs(key uint64, length int) uint64 {
	return (s.key ^ key) | (s.length() ^ uint64(length))
}

// NewLengths builds a Lengths.
func NewLengths(seq Routes) *Lengths {
	upper, lower := split(collect(seq))
	t := &Lengths{upper: newHashes(upper)}
	t.bytes = t.upper.settle()
	for _, in := range lower {
		t.lower = append(t.lower, newHashes(in))
		t.bytes += t.lower[len(t.lower)-1].settle()
	}
	t.bytes += hugePages(t.lower)
	return t
}

func (t *hashes) settle() int { return hugePages(t.slots) + hugePages(t.ropes) }

func newHashes(spans []span) hashes {
	b := lengthsBuilder{known: map[rope]uint64{}}
	whole := uint32(lookup.Miss)
	below := make([]*span, 0, len(spans))
	for i := range spans {
		if spans[i].bits == 0 {
			whole = spans[i].value
		} else {
			below = append(below, &spans[i])
		}
	}
	t := hashes{whole: slot{entry: b.below(below)<<ropeShift | uint64(whole)}, ropes: b.ropes}
	t.slots = make([]slot, 2*len(b.entries)+1) // half full, searches are short
	for _, e := range b.entries {
		t.insert(e)
	}
	return t
}

// home is the slot where a prefix belongs.
func (t *hashes) home(key uint64, length int) uint32 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f
	h := (key ^ uint64(length)) * odd1
	h ^= h >> 32
	slot, _ := bits.Mul64(h*odd2, uint64(len(t.slots)))
	return uint32(slot)
}

// after is the slot where to look for what is not in slot i.
func (t *hashes) after(i uint32) uint32 {
	if i++; int(i) < len(t.slots) {
		return i
	}
	return 0
}

func (t *hashes) insert(e slot) {
	i := t.home(e.key, int(e.length()))
	if t.slots[i].entry != 0 {
		t.slots[i].entry |= displaced
		for t.slots[i].entry != 0 {
			i = t.after(i)
		}
	}
	t.slots[i] = e
}

// probe returns the entry of a prefix, or 0. i is its home, of which the entry
// was read.
func (t *hashes) probe(i uint32, entry, key uint64, length int) uint64 {
	for t.slots[i].differs(key, length) != 0 {
		if entry&displaced == 0 {
			return 0
		}
		i = t.after(i)
		if entry = t.slots[i].entry | displaced; entry == displaced {
			return 0
		}
	}
	return t.slots[i].entry
}

// prefix is the first bits of a key; length is not 0.
func prefix(key uint64, length int) uint64 { return key & (^uint64(0) << ((64 - length) & 63)) }

// find returns the value for one key.
func (t *hashes) find(key uint64) uint32 {
	best := t.whole.entry
	for r := t.ropes[best>>ropeShift]; r != 0; {
		length := r.next()
		r = r.without(length)
		p := prefix(key, length)
		i := t.home(p, length)
		if e := t.probe(i, t.slots[i].entry, p, length); e != 0 {
			best, r = e, t.ropes[e>>ropeShift]
		}
	}
	return uint32(best)
}

// Bytes implements Table.
func (t *Lengths) Bytes() int { return t.bytes }

// LookupBatch implements Table.
func (t *Lengths) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	for len(src) > lanes {
		t.search(dst[:lanes], src[:lanes])
		dst, src = dst[lanes:], src[lanes:]
	}
	t.search(dst, src)
}

// search looks up at most as many addresses as there are lanes.
func (t *Lengths) search(dst []lookup.NextHop, src [][16]byte) {
	var (
		keys   [lanes]uint64
		ropes  [lanes]rope
		best   [lanes]uint64 // entries
		home   [lanes]uint32 // where to look next,
		there  [lanes]uint64 // and the entry that is there
		active [lanes]uint8
		n      int
	)
	in := &t.upper
	for i := range src {
		keys[i%lanes], _ = halves(&src[i])
		ropes[i%lanes], best[i%lanes] = in.ropes[in.whole.entry>>ropeShift], in.whole.entry
		active[i%lanes] = uint8(i)
	}
	if ropes[0] != 0 {
		n = len(src)
	}
	for n > 0 {
		// First load an entry for each, so that the cache misses overlap: what follows
		// has branches, and a wrong guess would hold up the next lanes' loads.
		for _, i := range active[:n] {
			i %= lanes
			length := ropes[i].next()
			home[i] = in.home(prefix(keys[i], length), length)
			there[i] = in.slots[home[i]].entry
		}
		remain := 0
		for _, i := range active[:n] {
			i %= lanes
			length := ropes[i].next()
			ropes[i] = ropes[i].without(length)
			if e := in.probe(home[i], there[i], prefix(keys[i], length), length); e != 0 {
				best[i], ropes[i] = e, in.ropes[e>>ropeShift]
			}
			active[remain] = i
			if ropes[i] != 0 {
				remain++
			}
		}
		n = remain
	}
	for i := range src {
		v := uint32(best[i%lanes])
		if v&deeper != 0 {
			_, lo := halves(&src[i])
			v = t.lower[v&^deeper].find(lo)
		}
		dst[i] = lookup.NextHop(v)
	}
}
