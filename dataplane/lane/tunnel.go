package lane

import "github.com/warproute/warproute/fib"

// RouteBy makes packets that are routed over XFRM interfaces no plain ones: IPsec encrypts them. It is called before
// NewClassifier.
func (c *Lanes) RouteBy(f *fib.FIB) { c.fib = f }

// routes reports whether routes decide which packets are plain.
func (k *Classifier) routes() bool { return k.fib != nil && k.gateway.Interfaces() != nil }

// plain returns the set of pairs of IPv4 addresses, a bit each, between which packets are plain: see
// policy.PlainCache.LookupIPv4.
func (k *Classifier) plain(pairs []uint64) (plain uint64) {
	plain = k.pairs.LookupIPv4(pairs)
	if !k.routes() {
		return plain
	}
	var dst [block]uint32
	var hops [block]fib.NextHopID
	for i, pair := range pairs {
		dst[i%block] = uint32(pair)
	}
	k.fib.IPv4.LookupBatch(hops[:len(pairs)], dst[:len(pairs)])
	for i, id := range hops[:len(pairs)] {
		if k.fib.NextHop(id).OverXFRM() {
			plain &^= 1 << (i & 63)
		}
	}
	return plain
}

// leadsToTunnel reports whether packets to an IPv6 address are routed over XFRM interfaces.
func (k *Classifier) leadsToTunnel(dst [16]byte) bool {
	return k.routes() && k.fib.NextHop(k.fib.IPv6.Lookup(dst)).OverXFRM()
}
