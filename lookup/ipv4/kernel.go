package ipv4

import (
	"sync/atomic"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// Kernels are the names of the ways of looking up a batch that this processor
// has, the fastest first: some of "avx512", "avx2", and "go".
func Kernels() []string { return trie.Names(kernels()) }

// walk is the kernel for every processor. Lookups do not depend on each other, so
// the processor overlaps as many as it can look ahead.
func walk(image []uint32, dst []lookup.NextHop, src []uint32) {
	fallback := lookup.NextHop(atomic.LoadUint32(&image[trie.Default])) & lookup.MaxNextHop
	for i, addr := range src {
		word := atomic.LoadUint32(&image[addr>>(32-trie.RootBits)])
		if word&trie.Reference != 0 {
			word = atomic.LoadUint32(&image[word&^trie.Reference+addr%trie.Group])
		}
		nh := lookup.NextHop(word) & lookup.MaxNextHop
		if nh == lookup.Miss {
			nh = fallback
		}
		dst[i] = nh
	}
}
