package lookup6

import (
	"sort"

	"github.com/warproute/warproute/lookup"
)

const rangesPaper = "Zec, Rizzo, Mikuc: DXR. Computer Communication Review 42(5), 2012"

// indexBits of an address choose where its search begins and ends.
const indexBits = 24

// Ranges is DXR for IPv6: an array, by the first bits of an address, of where its
// intervals begin in a sorted list, and a binary search between.
type Ranges struct {
	index  []uint32 // of the interval that a range of addresses begins in, and one beyond
	firsts []uint64 // keys that intervals begin with
	values []uint32 // as in interval
	lower  [][]interval
	bytes  int
}

// NewRanges builds a Ranges.
func NewRanges(seq Routes) *Ranges {
	spans, lower := split(collect(seq))
	upper := intervals(spans)
	t := &Ranges{
		index:  make([]uint32, 1<<indexBits+1),
		firsts: make([]uint64, len(upper)),
		values: make([]uint32, len(upper)),
	}
	next := uint64(0)
	for i, v := range upper {
		t.firsts[i], t.values[i] = v.first, v.value
		for ; next<<(64-indexBits) < v.first && next < 1<<indexBits; next++ {
			t.index[next] = uint32(i - 1)
		}
	}
	for ; next < uint64(len(t.index)); next++ {
		t.index[next] = uint32(len(upper) - 1)
	}
	t.bytes = hugePages(t.index) + hugePages(t.firsts) + hugePages(t.values)
	for _, in := range lower {
		t.lower = append(t.lower, intervals(in))
		t.bytes += hugePages(t.lower[len(t.lower)-1])
	}
	t.bytes += hugePages(t.lower)
	return t
}

// Bytes implements Table.
func (t *Ranges) Bytes() int { return t.bytes }

// LookupBatch implements Table.
func (t *Ranges) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	for len(src) > lanes {
		t.search(dst[:lanes], src[:lanes])
		dst, src = dst[lanes:], src[lanes:]
	}
	t.search(dst, src)
}

// search looks up at most as many addresses as there are lanes.
func (t *Ranges) search(dst []lookup.NextHop, src [][16]byte) {
	var (
		keys   [lanes]uint64
		begin  [lanes]uint32 // the interval is this one or one of
		others [lanes]uint32 // as many behind it
		active [lanes]uint8
		n      int
	)
	for i := range src {
		keys[i], _ = halves(&src[i])
		b := keys[i] >> (64 - indexBits)
		begin[i], others[i] = t.index[b], t.index[b+1]-t.index[b]
		active[n] = uint8(i)
		if others[i] != 0 {
			n++
		}
	}
	for n > 0 {
		remain := 0
		for _, i := range active[:n] {
			i %= lanes
			upperHalf := (others[i] + 1) / 2
			middle, rest := begin[i]+upperHalf, others[i]-upperHalf
			from, left := begin[i], upperHalf-1
			if t.firsts[middle] <= keys[i] {
				from = middle
			}
			if from == middle {
				left = rest
			}
			begin[i], others[i] = from, left
			active[remain] = i
			if left != 0 {
				remain++
			}
		}
		n = remain
	}
	for i := range src {
		v := t.values[begin[i]]
		if v&deeper != 0 {
			v = t.below(v&^deeper, &src[i])
		}
		dst[i] = lookup.NextHop(v)
	}
}

// below answers for an address in a /64 with longer routes.
func (t *Ranges) below(list uint32, addr *[16]byte) uint32 {
	in := t.lower[list]
	_, lo := halves(addr)
	beyond := sort.Search(len(in), func(i int) bool { return in[i].first > lo })
	return in[beyond-1].value
}
