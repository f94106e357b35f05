package fib

import "sync/atomic"

// Member returns the adjacency for a flow hash in a group, and the number of adjacencies of the
// group. It is for diagnostics; engines read Words.
func (f *FIB) Member(group, hash uint32) (adjacency uint32, members int) {
	seen := map[uint32]bool{}
	for i := range uint32(Buckets) {
		a := atomic.LoadUint32(&f.groups[group*Buckets+i])
		seen[a] = true
		if i == hash>>24 {
			adjacency = a
		}
	}
	return adjacency, len(seen)
}
