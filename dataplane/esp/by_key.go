package esp

import "github.com/warproute/warproute/ipsec/gateway"

// byKey has what packets need of SAs, by the index of their keys, for as long as the indexes are the same. An entry is smaller than a
// cache line, while SAs and what they point to have several lines each.
type byKey[T Sealer | opener] struct {
	all     []T
	changes uint64 // of the gateway's indexes
}

// begin begins a chunk. keys is the size of the device's key table.
func (x *byKey[T]) begin(g *gateway.Gateway, keys uint32) {
	if x.stale(g, keys) {
		x.reset(g, keys)
	}
}

// stale reports whether begin clears the entries.
func (x *byKey[T]) stale(g *gateway.Gateway, keys uint32) bool {
	return g.KeyChanges() != x.changes || len(x.all) != int(min(keys, gateway.MaxKeys))
}

// reset clears the entries. What points to them must not be used any more.
func (x *byKey[T]) reset(g *gateway.Gateway, keys uint32) {
	n := g.KeyChanges()
	if keys = min(keys, gateway.MaxKeys); len(x.all) != int(keys) {
		x.all = make([]T, keys)
	}
	clear(x.all)
	x.changes = n
}

// at returns the entry of an index, zero before its first use, or nil beyond the table.
func (x *byKey[T]) at(key uint32) *T {
	if int(key) >= len(x.all) {
		return nil
	}
	return &x.all[key]
}
