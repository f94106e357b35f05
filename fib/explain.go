package fib

import "sync/atomic"

// Member returns the adjacency that flows with a hash take in a group, and the number of
// adjacencies that the group has. It is for people; engines walk Words.
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
