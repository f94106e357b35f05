// Package oracle looks up routes slowly and simply, without code of the tables. Tests compare the two.
package oracle

import "net/netip"

// Routes maps prefixes to values.
type Routes[V any] map[netip.Prefix]V

// Lookup returns the longest prefix that contains addr, by linear search.
func (r Routes[V]) Lookup(addr netip.Addr) (best netip.Prefix, value V, ok bool) {
	for p, v := range r {
		if p.Contains(addr) && (!ok || p.Bits() > best.Bits()) {
			best, value, ok = p, v, true
		}
	}
	return best, value, ok
}
