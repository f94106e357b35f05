package lookup6

import (
	"github.com/warproute/warproute/lookup"
)

const lengthsPaper = "Waldvogel, Varghese, Turner, Plattner: Scalable High Speed IP Routing Lookups. SIGCOMM 1997"

// Lengths is a binary search over the prefix lengths, with a hash table of all
// prefixes. Where a search for a longer prefix has to come by a length at which
// it has none, there is a marker, which knows the answer for those that find
// nothing longer (so there is no way back).
//
// It is the paper's last variant, rope search: each entry names the lengths to
// try below it, as long as nothing is found at one; what is found brings its own.
type Lengths struct {
	slots []slot // open addressing, a power of two
	shift int    // of a hash, to give a slot
	ropes []byte // lengths to try in turn, falling, up to a 0
	root  slot   // what is known before the first length is tried
	bytes int
}

// slot is 24 bytes.
type slot struct {
	hi, lo uint64
	rope   uint32 // the first index of what to try below it
	// answer is the next hop above 8 bits of length; the length of no entry is 0.
	answer uint32
}

const (
	lengthMask = 1<<8 - 1
	nhMask     = 1<<20 - 1
	// displaced marks a slot of which a key that belongs there is further on. With
	// it, most searches for what is not there end at the first slot.
	displaced = 1 << 31
)

// differs is 0 if s is the entry of a prefix.
func (s *slot) differs(hi, lo uint64, length byte) uint64 {
	return (s.hi ^ hi) | (s.lo ^ lo) | uint64(byte(s.answer)^length)
}

// NewLengths builds a Lengths.
func NewLengths(seq Routes) *Lengths {
	routes := collect(seq)
	b := lengthsBuilder{known: map[string]uint32{}}
	var root slot
	below := make([]*route, 0, len(routes))
	for i := range routes {
		if routes[i].bits == 0 {
			root.answer = uint32(routes[i].nh) << 8
			continue
		}
		below = append(below, &routes[i])
	}
	root.rope = b.rope(below)
	t := &Lengths{ropes: b.ropes, root: root, shift: 60}
	for 1<<(64-t.shift) < 2*len(b.entries) {
		t.shift--
	}
	t.slots = make([]slot, 1<<(64-t.shift))
	for _, e := range b.entries {
		t.insert(e)
	}
	t.bytes = hugePages(t.slots) + hugePages(t.ropes)
	return t
}

type lengthsBuilder struct {
	entries []slot
	ropes   []byte
	known   map[string]uint32 // where a rope is in ropes
}

// rope makes the entries for finding the routes below, in their order, and
// returns the rope that leads to them.
func (b *lengthsBuilder) rope(below []*route) uint32 {
	var rope []byte
	for len(below) > 0 {
		length := middle(below)
		var shorter []*route
		for len(below) > 0 {
			r := below[0]
			if r.bits < length {
				shorter, below = append(shorter, r), below[1:]
				continue
			}
			e := slot{answer: uint32(r.within(length).nextHop())<<8 | uint32(length)}
			e.hi, e.lo = masked(r.hi, r.lo, length)
			var longer []*route
			if r.bits == length { // not a marker alone
				below = below[1:]
			}
			for len(below) > 0 {
				hi, lo := masked(below[0].hi, below[0].lo, length)
				if hi != e.hi || lo != e.lo {
					break
				}
				longer, below = append(longer, below[0]), below[1:]
			}
			e.rope = b.rope(longer)
			b.entries = append(b.entries, e)
		}
		rope = append(rope, byte(length))
		below = shorter
	}
	rope = append(rope, 0)
	at, ok := b.known[string(rope)]
	if !ok {
		at = uint32(len(b.ropes))
		b.known[string(rope)] = at
		b.ropes = append(b.ropes, rope...)
	}
	return at
}

// middle is the length that halves the routes, not the lengths: most routes have
// one of few, and are found the sooner.
func middle(routes []*route) int {
	var count [129]int
	for _, r := range routes {
		count[r.bits]++
	}
	length := 0
	for n := count[0]; 2*n <= len(routes); n += count[length] {
		length++
	}
	return length
}

// hash mixes a prefix; its upper bits are the best.
func hash(hi, lo uint64, length uint32) uint64 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f
	h := (hi ^ uint64(length)) * odd1
	h ^= h>>32 ^ lo
	return h * odd2
}

func (t *Lengths) insert(e slot) {
	i := hash(e.hi, e.lo, e.answer&lengthMask) >> t.shift
	if t.slots[i].answer != 0 {
		t.slots[i].answer |= displaced
		for t.slots[i].answer != 0 {
			i = (i + 1) % uint64(len(t.slots))
		}
	}
	t.slots[i] = e
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
		his, los [lanes]uint64
		rope     [lanes]uint32
		answer   [lanes]uint32
		active   [lanes]uint8
	)
	for i := range src {
		his[i%lanes], los[i%lanes] = halves(&src[i])
		rope[i%lanes], answer[i%lanes], active[i%lanes] = t.root.rope, t.root.answer, uint8(i)
	}
	n := len(src)
	if t.ropes[t.root.rope] == 0 {
		n = 0
	}
	for n > 0 {
		remain := 0
		for _, i := range active[:n] {
			i %= lanes
			next := rope[i] + 1
			length := t.ropes[rope[i]]
			hi, lo := masked(his[i], los[i], int(length))
			h := hash(hi, lo, uint32(length)) >> (t.shift & 63)
			s := &t.slots[h]
			other := s.differs(hi, lo, length)
			if other != 0 && s.answer&displaced != 0 {
				for other != 0 && s.answer != 0 {
					h = (h + 1) & uint64(len(t.slots)-1)
					s = &t.slots[h]
					other = s.differs(hi, lo, length)
				}
			}
			best := answer[i]
			below, found := s.rope, s.answer
			if other == 0 {
				next = below
			}
			if other == 0 {
				best = found
			}
			rope[i], answer[i] = next, best
			active[remain] = i
			if t.ropes[next] != 0 {
				remain++
			}
		}
		n = remain
	}
	for i := range src {
		dst[i] = lookup.NextHop(answer[i%lanes] >> 8 & nhMask)
	}
}
