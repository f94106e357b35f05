package esp

import "github.com/warproute/warproute/ipsec/gateway"

// byKey has what packets need of SAs, by the index of their keys, for as long as the indexes are the same: three to a
// cache line, while SAs and what they point to have several lines each.
type byKey[T Sealer | opener] struct {
	all     []T
	changes uint64 // of the gateway's indexes
}

// begin begins a chunk. keys is the size of the device's key table.
func (x *byKey[T]) begin(g *gateway.Gateway, keys uint32) {
	n := g.KeyChanges()
	keys = min(keys, gateway.MaxKeys)
	if n == x.changes && len(x.all) == int(keys) {
		return
	}
	if len(x.all) != int(keys) {
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
