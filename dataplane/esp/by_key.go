package esp

import "github.com/warproute/warproute/ipsec/gateway"

// byKey has what packets need of SAs, by the index of their keys, for as long as the indexes are the same. An entry is in one cache
// line, while SAs and what they point to have several lines each.
type byKey[T Sealer | opener] struct {
	all     []T
	used    []uint32 // indexes of entries that are not zero
	changes uint64   // of the gateway's indexes
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
	var zero T
	for _, key := range x.used {
		x.all[key] = zero
	}
	if keys = min(keys, gateway.MaxKeys); len(x.all) != int(keys) {
		x.all, x.used = make([]T, keys), make([]uint32, 0, keys)
	}
	x.used, x.changes = x.used[:0], g.KeyChanges()
}

// use sets the entry of an index, which is zero.
func (x *byKey[T]) use(key uint32, entry T) *T {
	x.used = append(x.used, key)
	x.all[key] = entry
	return &x.all[key]
}

// at returns the entry of an index, zero before its first use, or nil beyond the table.
func (x *byKey[T]) at(key uint32) *T {
	if int(key) >= len(x.all) {
		return nil
	}
	return &x.all[key]
}
