package ipv4

import (
	"sync/atomic"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// Kernels returns the names of the lookup kernels for this processor, fastest first:
// some of "avx512", "avx2", and "go".
func Kernels() []string { return trie.Names(kernels()) }

// walk is the portable kernel. Its lookups are independent, so an out-of-order processor
// overlaps their cache misses.
func walk(image []uint32, dst []lookup.NextHopID, src []uint32) {
	fallback := lookup.NextHopID(atomic.LoadUint32(&image[trie.Default])) & lookup.MaxNextHopID
	for i, addr := range src {
		word := atomic.LoadUint32(&image[addr>>(32-trie.RootBits)])
		if word&trie.Reference != 0 {
			word = atomic.LoadUint32(&image[word&^trie.Reference+addr%trie.NodeWords])
		}
		nh := lookup.NextHopID(word) & lookup.MaxNextHopID
		if nh == lookup.Miss {
			nh = fallback
		}
		dst[i] = nh
	}
}
