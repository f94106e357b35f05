package lookup6

import (
	"math/bits"

	"github.com/warproute/warproute/lookup"
)

const poptriePaper = "Asai, Ohara: Poptrie. SIGCOMM 2015"

const (
	// directBits are resolved by an array, before the first node. With 18, the
	// levels below begin at bits 18, 24 and so on, and a /48 ends with a level.
	directBits = 18
	stride     = 6 // bits a level: two to the sixth is the bits of a word
)

// Poptrie is a trie with 64 children a node that are not stored where they would
// be, but one after the other: a child's place is the number of ones before its
// own in the node's bit vector. Leaves likewise, and runs of equal ones are
// stored once.
type Poptrie struct {
	direct []uint32 // of the first bits: a node, or isLeaf and a next hop
	nodes  []node
	leaves []lookup.NextHop
	bytes  int
}

const isLeaf = 1 << 31

// node is 24 bytes. What it has of leaves and of children, it has in the same
// place of two arrays, so that a walk chooses by an index and not by a branch,
// which would often be guessed wrong.
type node struct {
	// ones has a one for each slot that begins a run of equal leaves; and one for
	// each that is a child.
	ones [2]uint64
	// begin is where the node's leaves begin; and its children.
	begin [2]uint32
}

// The kinds of slots.
const leaf, child = 0, 1

// NewPoptrie builds a Poptrie.
func NewPoptrie(seq Routes) *Poptrie {
	t := &Poptrie{direct: make([]uint32, 1<<directBits)}
	top, levels := newSlots(directBits), make([]slots, (128-directBits+stride-1)/stride)
	for i := range levels {
		levels[i] = newSlots(stride)
	}
	top.fill(collect(seq), 0, lookup.Miss)
	for i, below := range top.below {
		t.direct[i] = isLeaf | uint32(top.leaf[i])
		if below != nil {
			t.direct[i] = uint32(len(t.nodes))
			t.nodes = append(t.nodes, node{})
			t.build(levels, t.direct[i], below, directBits, top.leaf[i])
		}
	}
	t.bytes = hugePages(t.direct) + hugePages(t.nodes) + hugePages(t.leaves)
	return t
}

// slots is a node before compression: for each value of the next width bits, the
// routes that are longer than these, and the answer for what is in none of them.
type slots struct {
	width int
	leaf  []lookup.NextHop
	below [][]route
}

func newSlots(width int) slots {
	return slots{width, make([]lookup.NextHop, 1<<width), make([][]route, 1<<width)}
}

// fill spreads routes over the slots. They agree in the bits before depth and
// are longer than that; what none of them covers inherits its answer.
func (s *slots) fill(routes []route, depth int, inherited lookup.NextHop) {
	clear(s.below)
	for i := range s.leaf {
		s.leaf[i] = inherited
	}
	slot := func(r route) uint64 { return window(r.hi, r.lo, depth) >> (64 - s.width) }
	for len(routes) > 0 {
		first, n := slot(routes[0]), 1
		if rest := depth + s.width - routes[0].bits; rest >= 0 {
			covered := s.leaf[first:][:1<<rest]
			for i := range covered {
				covered[i] = routes[0].nh
			}
		} else {
			for n < len(routes) && slot(routes[n]) == first {
				n++
			}
			s.below[first] = routes[:n]
		}
		routes = routes[n:]
	}
}

// build fills the node at index at with routes longer than depth. levels has
// room for it and for what is below it.
func (t *Poptrie) build(levels []slots, at uint32, routes []route, depth int, inherited lookup.NextHop) {
	s := levels[0]
	s.fill(routes, depth, inherited)
	n := node{begin: [2]uint32{leaf: uint32(len(t.leaves)), child: uint32(len(t.nodes))}}
	for i, below := range s.below {
		switch nh := s.leaf[i]; {
		case below != nil:
			n.ones[child] |= 1 << i
			t.nodes = append(t.nodes, node{})
		case len(t.leaves) == int(n.begin[leaf]) || t.leaves[len(t.leaves)-1] != nh:
			n.ones[leaf] |= 1 << i
			t.leaves = append(t.leaves, nh)
		}
	}
	t.nodes[at] = n
	next := n.begin[child]
	for i, below := range s.below {
		if below != nil {
			t.build(levels[1:], next, below, depth+stride, s.leaf[i])
			next++
		}
	}
}

// Bytes implements Table.
func (t *Poptrie) Bytes() int { return t.bytes }

// LookupBatch implements Table.
func (t *Poptrie) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	for len(src) > lanes {
		t.walk(dst[:lanes], src[:lanes])
		dst, src = dst[lanes:], src[lanes:]
	}
	t.walk(dst, src)
}

// walk looks up at most as many addresses as there are lanes.
func (t *Poptrie) walk(dst []lookup.NextHop, src [][16]byte) {
	var (
		addr   [lanes]uint64 // bits of the address, those from base on
		at     [lanes]uint32 // the node, in the end the leaf
		active [lanes]uint8
		n      int // lanes active
	)
	for i := range src {
		hi, _ := halves(&src[i])
		direct := t.direct[hi>>(64-directBits)]
		dst[i] = lookup.NextHop(direct &^ isLeaf)
		addr[i], at[i], active[n] = hi, direct, uint8(i)
		n += int(^direct >> 31) // without a branch: a guess would often be wrong
	}
	inTrie, total := active, n
	for depth, base := directBits, 0; n > 0; depth += stride {
		if depth+stride > base+64 {
			base = depth
			for _, i := range active[:n] {
				hi, lo := halves(&src[i])
				addr[i%lanes] = window(hi, lo, base)
			}
		}
		shift := base + 64 - stride - depth
		remain := 0
		for _, i := range active[:n] {
			i %= lanes
			nd := &t.nodes[at[i]]
			slot := addr[i] >> (shift & 63) & 63
			kind := nd.ones[child] >> slot & 1
			at[i] = nd.begin[kind] + uint32(bits.OnesCount64(nd.ones[kind]&(2<<slot-1))) - 1
			active[remain] = i
			remain += int(kind)
		}
		n = remain
	}
	for _, i := range inTrie[:total] {
		dst[i] = t.leaves[at[i%lanes]]
	}
}
