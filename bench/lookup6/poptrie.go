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

// node is 24 bytes.
type node struct {
	inner    uint64 // a one for each slot that is a node, not a leaf
	leafRuns uint64 // a one for each slot that begins a run of equal leaves
	children uint32 // where its nodes begin
	leaves   uint32 // where its leaves begin
}

// NewPoptrie builds a Poptrie.
func NewPoptrie(seq Routes) *Poptrie {
	t := &Poptrie{}
	var s slots
	s.fill(collect(seq), 0, directBits, lookup.Miss)
	t.direct = make([]uint32, 1<<directBits)
	for i, below := range s.below {
		t.direct[i] = isLeaf | uint32(s.leaf[i])
		if below != nil {
			t.direct[i] = uint32(len(t.nodes))
			t.nodes = append(t.nodes, node{})
			t.build(t.direct[i], below, directBits, s.leaf[i])
		}
	}
	t.bytes = hugePages(t.direct) + hugePages(t.nodes) + hugePages(t.leaves)
	return t
}

// slots is a node before compression: for each value of its bits, the answer if
// no route of below is longer.
type slots struct {
	leaf  []lookup.NextHop
	below [][]route
}

// fill spreads routes that agree in the bits before depth over the slots of the
// width bits after it.
func (s *slots) fill(routes []route, depth, width int, inherited lookup.NextHop) {
	s.leaf = make([]lookup.NextHop, 1<<width)
	s.below = make([][]route, 1<<width)
	for i := range s.leaf {
		s.leaf[i] = inherited
	}
	slot := func(r *route) uint64 { return window(r.hi, r.lo, depth) >> (64 - width) }
	for len(routes) > 0 {
		first := slot(&routes[0])
		n := 1
		if r := &routes[0]; r.bits <= depth+width {
			covered := s.leaf[first:][:1<<(depth+width-r.bits)]
			for i := range covered {
				covered[i] = r.nh
			}
		} else {
			for n < len(routes) && slot(&routes[n]) == first {
				n++
			}
			s.below[first] = routes[:n]
		}
		routes = routes[n:]
	}
}

// build fills the node at index at with routes longer than depth.
func (t *Poptrie) build(at uint32, routes []route, depth int, inherited lookup.NextHop) {
	var s slots
	s.fill(routes, depth, stride, inherited)
	n := node{children: uint32(len(t.nodes)), leaves: uint32(len(t.leaves))}
	for i, below := range s.below {
		switch nh := s.leaf[i]; {
		case below != nil:
			n.inner |= 1 << i
			t.nodes = append(t.nodes, node{})
		case len(t.leaves) == int(n.leaves) || t.leaves[len(t.leaves)-1] != nh:
			n.leafRuns |= 1 << i
			t.leaves = append(t.leaves, nh)
		}
	}
	t.nodes[at] = n
	child := n.children
	for i, below := range s.below {
		if below != nil {
			t.build(child, below, depth+stride, s.leaf[i])
			child++
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
		at     [lanes]uint32 // the node
		leaf   [lanes]uint32
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
			upTo := uint64(2)<<slot - 1
			leaf[i] = nd.leaves + uint32(bits.OnesCount64(nd.leafRuns&upTo)) - 1
			at[i] = nd.children + uint32(bits.OnesCount64(nd.inner&upTo)) - 1
			active[remain] = i
			remain += int(nd.inner >> slot & 1)
		}
		n = remain
	}
	for _, i := range inTrie[:total] {
		dst[i] = t.leaves[leaf[i%lanes]]
	}
}
