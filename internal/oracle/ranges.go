package oracle

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// Ranges is an oracle for millions of routes and addresses. It splits the address space at the first
// address of each prefix and after its last, stores the longest prefix of each range, and finds an
// address by binary search.
type Ranges[V any] struct {
	starts []netip.Addr // ascending; a range ends at the next start
	values []V          // of the range that begins there
	found  []bool       // whether any prefix covers it
}

// NewRanges splits the address space by prefixes of one family. If a prefix is repeated, one of its
// values is used.
func NewRanges[V any](routes iter.Seq2[netip.Prefix, V]) *Ranges[V] {
	type span struct {
		first, last netip.Addr
		bits        int
		value       V
	}
	var spans []span
	for p, v := range routes {
		spans = append(spans, span{p.Addr(), lastAddr(p), p.Bits(), v})
	}
	// Of two spans with the same start, the wider is first. So a span starts inside all open ones.
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.bits, b.bits))
	})
	r := new(Ranges[V])
	var open []span // each inside its predecessor
	closeBefore := func(limit netip.Addr) {
		for len(open) > 0 && (!limit.IsValid() || open[len(open)-1].last.Less(limit)) {
			after := open[len(open)-1].last.Next()
			open = open[:len(open)-1]
			switch {
			case !after.IsValid(): // end of the address space
			case len(open) > 0:
				r.cut(after, open[len(open)-1].value, true)
			default:
				var none V
				r.cut(after, none, false)
			}
		}
	}
	for _, s := range spans {
		closeBefore(s.first)
		r.cut(s.first, s.value, true)
		open = append(open, s)
	}
	closeBefore(netip.Addr{})
	return r
}

// cut starts a range. It replaces a range with the same start.
func (r *Ranges[V]) cut(start netip.Addr, v V, found bool) {
	if n := len(r.starts); n > 0 && r.starts[n-1] == start {
		r.values[n-1], r.found[n-1] = v, found
		return
	}
	r.starts, r.values, r.found = append(r.starts, start), append(r.values, v), append(r.found, found)
}

// Lookup returns the value of the longest prefix that contains addr.
func (r *Ranges[V]) Lookup(addr netip.Addr) (value V, ok bool) {
	i, exact := slices.BinarySearchFunc(r.starts, addr, netip.Addr.Compare)
	if !exact {
		i--
	}
	if i < 0 {
		return value, false
	}
	return r.values[i], r.found[i]
}

// lastAddr returns the highest address of a prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		if host := 8*(i+1) - p.Bits(); host > 0 {
			b[i] |= byte(1<<min(host, 8) - 1)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
