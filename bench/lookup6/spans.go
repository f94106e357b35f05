package lookup6

import "github.com/warproute/warproute/lookup"

// span is a prefix of a 64-bit key, and its answer.
type span struct {
	key    uint64
	bits   int
	value  uint32 // a next hop, or deeper and a number
	parent *span  // the longest of the others that covers this one, or nil
}

// deeper marks the value of a /64 that has longer routes. Beside it is the
// number of a table of these, for the lower halves of addresses.
const deeper = 1 << 31

// split returns the prefixes of the addresses' upper halves, which is all that
// nearly every route needs, and for each /64 with longer routes the prefixes of
// the lower halves. All are in order, the covering ones first.
func split(routes []route) (upper []span, lower [][]span) {
	for len(routes) > 0 {
		r := routes[0]
		if r.bits <= 64 {
			upper = append(upper, span{key: r.hi, bits: r.bits, value: uint32(r.nh)})
			routes = routes[1:]
			continue
		}
		// In their order, the routes longer than /64 of one /64 are neighbours.
		inside := []span{{value: uint32(lookup.Miss)}}
		for len(routes) > 0 && routes[0].hi == r.hi {
			inside = append(inside, span{key: routes[0].lo, bits: routes[0].bits - 64, value: uint32(routes[0].nh)})
			routes = routes[1:]
		}
		nest(inside)
		down := span{key: r.hi, bits: 64, value: deeper | uint32(len(lower))}
		if last := len(upper) - 1; last >= 0 && upper[last].key == r.hi && upper[last].bits == 64 {
			inside[0].value = upper[last].value
			upper[last] = down
		} else {
			upper = append(upper, down)
		}
		lower = append(lower, inside)
	}
	nest(upper)
	for i := range upper {
		// What is in none of the longer routes is in the shorter ones.
		if s := &upper[i]; s.value&deeper != 0 {
			if rest := &lower[s.value&^deeper][0]; rest.value == uint32(lookup.Miss) {
				rest.value = s.parent.answer()
			}
		}
	}
	return upper, lower
}

// nest sets the parents.
func nest(spans []span) {
	var open *span // the latest; only it and its parents may cover the next
	for i := range spans {
		s := &spans[i]
		for open != nil && open.last() < s.key {
			open = open.parent
		}
		s.parent, open = open, s
	}
}

// last is the last key of a span.
func (s *span) last() uint64 { return s.key | ^uint64(0)>>s.bits }

// answer is the value of a span, or lookup.Miss where there is none.
func (s *span) answer() uint32 {
	if s == nil {
		return uint32(lookup.Miss)
	}
	return s.value
}

// interval is a range of keys with one answer, from first up to the first key of
// the next interval.
type interval struct {
	first uint64
	value uint32
}

// intervals flattens spans into as few intervals as have the same answers. The
// first begins at 0, so that every key is in one.
func intervals(spans []span) []interval {
	flat := []interval{{0, uint32(lookup.Miss)}}
	begin := func(first uint64, value uint32) {
		if flat[len(flat)-1].first == first {
			flat = flat[:len(flat)-1] // that one is empty
		}
		if len(flat) == 0 || flat[len(flat)-1].value != value {
			flat = append(flat, interval{first, value})
		}
	}
	var open *span
	closeUntil := func(parent *span) {
		for ; open != parent; open = open.parent {
			if last := open.last(); last != ^uint64(0) {
				begin(last+1, open.parent.answer())
			}
		}
	}
	for i := range spans {
		s := &spans[i]
		closeUntil(s.parent)
		begin(s.key, s.value)
		open = s
	}
	closeUntil(nil)
	return flat
}
