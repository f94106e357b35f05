package lookup6

import (
	"slices"

	"github.com/warproute/warproute/lookup"
)

// interval is a range of 64-bit keys with one answer, from first up to the
// first key of the next interval.
type interval struct {
	first uint64
	value uint32 // a next hop, or deeper and the number of a list of intervals
}

// deeper marks the value of a /64 that has routes longer than itself: its
// addresses are looked up once more, by their lower halves.
const deeper = 1 << 31

// span is a prefix of a 64-bit key and its answer.
type span struct {
	key   uint64
	bits  int
	value uint32
}

// elementary turns routes into intervals of the addresses' upper halves, which
// is all that nearly every route needs, and for each /64 with longer routes a
// list of intervals of the lower halves.
func elementary(routes []route) (upper []interval, lower [][]interval) {
	var spans []span
	for len(routes) > 0 {
		r := &routes[0]
		if r.bits <= 64 {
			spans = append(spans, span{r.hi, r.bits, uint32(r.nh)})
			routes = routes[1:]
			continue
		}
		// In their order, the routes longer than /64 of one /64 are neighbours.
		inside := []span{{0, 0, uint32(r.within(64).nextHop())}}
		for len(routes) > 0 && routes[0].hi == r.hi {
			inside = append(inside, span{routes[0].lo, routes[0].bits - 64, uint32(routes[0].nh)})
			routes = routes[1:]
		}
		spans = append(spans, span{r.hi, 64, deeper | uint32(len(lower))})
		lower = append(lower, intervals(inside))
	}
	return intervals(spans), lower
}

// intervals flattens nested spans, the covering ones first, into as few
// intervals as have the same answers. The first begins at 0, so that every key
// is in one.
func intervals(spans []span) []interval {
	flat := []interval{{0, uint32(lookup.Miss)}}
	begin := func(first uint64, value uint32) {
		if last := &flat[len(flat)-1]; last.first == first {
			flat = flat[:len(flat)-1] // an empty interval
		}
		if len(flat) == 0 || flat[len(flat)-1].value != value {
			flat = append(flat, interval{first, value})
		}
	}
	type open struct {
		last  uint64
		value uint32
	}
	stack := []open{{^uint64(0), uint32(lookup.Miss)}}
	closeBefore := func(key uint64) {
		for stack[len(stack)-1].last < key {
			ended := stack[len(stack)-1].last
			stack = stack[:len(stack)-1]
			begin(ended+1, stack[len(stack)-1].value)
		}
	}
	for _, s := range spans {
		closeBefore(s.key)
		begin(s.key, s.value)
		stack = append(stack, open{s.key | ^uint64(0)>>s.bits, s.value})
	}
	closeBefore(^uint64(0))
	return slices.Clip(flat)
}
