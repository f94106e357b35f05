//go:build amd64

package ipv6

import (
	"unsafe"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// LookupBatch stores the next hop of src[i] in dst[i]. It panics if dst is shorter than
// src, and allocates nothing.
//
// As in package ipv4, it is small enough to be inlined, and all checks are in the assembly.
func (t *Table) LookupBatch(dst []lookup.NextHopID, src [][16]byte) {
	dst = dst[:len(src)]
	lookupBatch((*byte)(unsafe.Pointer(t)), (*uint32)(unsafe.SliceData(dst)), unsafe.SliceData(src), len(src))
}

// The assembly expects trie.direct at offset 0 of a table.
const _ = -unsafe.Offsetof(Table{}.Batched)

var _ = lookupSlow // called by the assembly only

// lookupSlow looks up batches that the assembly does not: without AVX-512, without routes, or
// longer than trie.MaxBatch.
func lookupSlow(table *byte, dst *uint32, src *[16]byte, n int) {
	t := (*Table)(unsafe.Pointer(table))
	hops, addrs := unsafe.Slice((*lookup.NextHopID)(dst), n), unsafe.Slice(src, n)
	if !t.Direct() {
		t.Batched.LookupBatch(hops, addrs)
		return
	}
	for at := 0; at < n; at += trie.MaxBatch {
		end := min(at+trie.MaxBatch, n)
		t.LookupBatch(hops[at:end], addrs[at:end])
	}
}
