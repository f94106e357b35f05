// Package oracle answers slowly and plainly what tables answer fast, and shares
// no code with any of them. Tests compare the two.
package oracle

import "net/netip"

// Routes is a list of prefixes with a value each.
type Routes[V any] map[netip.Prefix]V

// Lookup returns the longest prefix that contains addr, by looking at all.
func (r Routes[V]) Lookup(addr netip.Addr) (best netip.Prefix, value V, ok bool) {
	for p, v := range r {
		if p.Contains(addr) && (!ok || p.Bits() > best.Bits()) {
			best, value, ok = p, v, true
		}
	}
	return best, value, ok
}
