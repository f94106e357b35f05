package oracle

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
)

// Ranges answers for a million routes and millions of addresses, which is too
// much for Routes. It cuts the address space at every prefix's first address and
// behind its last, notes which prefix rules between two cuts, and finds an
// address by binary search: no trie, no bits, nothing that a table has.
type Ranges[V any] struct {
	starts []netip.Addr // ascending; a range lasts until the next begins
	values []V          // of the range that begins there
	found  []bool       // whether any prefix covers it
}

// NewRanges cuts the address space by the prefixes of one family. Of a prefix
// that comes twice either value may count.
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
	// The wider of two that begin together comes first, so that spans only ever
	// begin inside those that are open.
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(a.first.Compare(b.first), cmp.Compare(a.bits, b.bits))
	})
	r := new(Ranges[V])
	var open []span // each inside the one before
	closeBefore := func(limit netip.Addr) {
		for len(open) > 0 && (!limit.IsValid() || open[len(open)-1].last.Less(limit)) {
			after := open[len(open)-1].last.Next()
			open = open[:len(open)-1]
			switch {
			case !after.IsValid(): // nothing is behind the last address
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

// cut begins a range. One that begins where the last did takes its place.
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

// lastAddr is the highest address of a prefix.
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
