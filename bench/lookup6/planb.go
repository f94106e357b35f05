package lookup6

import (
	"math/bits"

	"github.com/warproute/warproute/lookup"
)

const planbPaper = "Zhang et al.: PlanB. NSDI 2026"

// PlanB is a linearized B+-tree of the ends of intervals: nodes of eight keys, a
// cache line, each level an array of its own, and no pointers, as the children of
// node n are the nodes 9n to 9n+8 of the next level.
//
// Keys are the upper halves of addresses; a /64 with longer routes has a second
// tree, of the lower halves. PlanBVector does the same with vector instructions.
type PlanB struct {
	upper tree
	lower []tree
	bytes int
}

// keys of a node; one more child.
const keys = 8

// tree finds the interval that a key is in.
type tree struct {
	// nodes are those of all levels, the root first. Key k of a node is the last of
	// all in its child k or, in a leaf, of interval k. What is missing is filled up
	// with the largest number. As no key is above that, a search goes to nothing
	// that does not exist, and needs no bounds.
	nodes  [][keys]uint64
	levels []uint32 // where the nodes of each begin
	values []uint32 // of intervals, in order
}

// newTree builds a tree, from the leaves up.
func newTree(in []interval) tree {
	lasts := make([]uint64, len(in)) // the last key of each interval, then of each node
	t := tree{values: make([]uint32, len(in))}
	for i, v := range in {
		t.values[i] = v.value
		lasts[i] = ^uint64(0)
		if i+1 < len(in) {
			lasts[i] = in[i+1].first - 1
		}
	}
	var levels [][][keys]uint64
	for perNode := keys; ; perNode = keys + 1 {
		var level [][keys]uint64
		var above []uint64
		for ; len(lasts) > 0; lasts = lasts[min(perNode, len(lasts)):] {
			group := lasts[:min(perNode, len(lasts))]
			nd := [keys]uint64{}
			for i := range nd {
				nd[i] = ^uint64(0)
			}
			copy(nd[:], group)
			level = append(level, nd)
			above = append(above, group[len(group)-1])
		}
		levels = append(levels, level)
		if len(level) == 1 {
			break
		}
		lasts = above
	}
	for i := len(levels) - 1; i >= 0; i-- {
		t.levels = append(t.levels, uint32(len(t.nodes)))
		t.nodes = append(t.nodes, levels[i]...)
	}
	return t
}

// below is how many keys of a node are below x: the child to go to. It takes the
// borrow of subtractions, as eight branches would be guessed wrong.
func below(n *[keys]uint64, x uint64) uint32 {
	_, b0 := bits.Sub64(n[0], x, 0)
	_, b1 := bits.Sub64(n[1], x, 0)
	_, b2 := bits.Sub64(n[2], x, 0)
	_, b3 := bits.Sub64(n[3], x, 0)
	_, b4 := bits.Sub64(n[4], x, 0)
	_, b5 := bits.Sub64(n[5], x, 0)
	_, b6 := bits.Sub64(n[6], x, 0)
	_, b7 := bits.Sub64(n[7], x, 0)
	return uint32(b0 + b1 + b2 + b3 + b4 + b5 + b6 + b7)
}

// find returns the value of the interval that x is in.
func (t *tree) find(x uint64) uint32 {
	at := uint32(0)
	leaves := len(t.levels) - 1
	for _, first := range t.levels[:leaves] {
		at = at*(keys+1) + below(&t.nodes[first+at], x)
	}
	return t.values[at*keys+below(&t.nodes[t.levels[leaves]+at], x)]
}

// NewPlanB builds a PlanB.
func NewPlanB(seq Routes) *PlanB {
	upper, lower := split(collect(seq))
	t := &PlanB{upper: newTree(intervals(upper))}
	t.bytes = t.upper.settle()
	for _, in := range lower {
		t.lower = append(t.lower, newTree(intervals(in)))
		t.bytes += t.lower[len(t.lower)-1].settle()
	}
	t.bytes += hugePages(t.lower)
	return t
}

// settle puts a tree on huge pages and returns its size.
func (t *tree) settle() int { return hugePages(t.nodes) + hugePages(t.levels) + hugePages(t.values) }

// Bytes implements Table.
func (t *PlanB) Bytes() int { return t.bytes }

// LookupBatch implements Table.
func (t *PlanB) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	for len(src) > lanes {
		t.search(dst[:lanes], src[:lanes])
		dst, src = dst[lanes:], src[lanes:]
	}
	t.search(dst, src)
}

// search looks up at most as many addresses as there are lanes.
func (t *PlanB) search(dst []lookup.NextHop, src [][16]byte) {
	var (
		key [lanes]uint64
		at  [lanes]uint32
	)
	for i := range src {
		key[i%lanes], _ = halves(&src[i])
	}
	leaves := len(t.upper.levels) - 1
	for l, first := range t.upper.levels {
		level := t.upper.nodes[first:]
		children := uint32(keys + 1)
		if l == leaves {
			children = keys
		}
		for i := range src {
			at[i%lanes] = at[i%lanes]*children + below(&level[at[i%lanes]], key[i%lanes])
		}
	}
	for i := range src {
		dst[i] = lookup.NextHop(t.upper.values[at[i%lanes]])
	}
	t.finish(dst, src)
}

// finish answers those that are in a /64 with longer routes.
func (t *PlanB) finish(dst []lookup.NextHop, src [][16]byte) {
	for i, v := range dst[:len(src)] {
		if v&deeper != 0 {
			_, lo := halves(&src[i])
			dst[i] = lookup.NextHop(t.lower[v&^deeper].find(lo))
		}
	}
}
