package ipv6

import (
	"sync/atomic"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// Kernels returns the names of the lookup kernels for this processor, fastest first:
// some of "avx512", "avx2", and "go".
func Kernels() []string { return trie.Names(kernels()) }

// walk is the portable kernel. It processes blocks level by level, so that the cache
// misses of a level overlap.
func walk(image []uint32, dst []lookup.NextHopID, src [][16]byte) {
	for ; len(src) > block; dst, src = dst[block:], src[block:] {
		walkBlock(image, dst[:block], src[:block])
	}
	walkBlock(image, dst, src)
}

// block is the number of addresses per level-by-level walk.
const block = 64

func walkBlock(image []uint32, dst []lookup.NextHopID, src [][16]byte) {
	fallback := lookup.NextHopID(atomic.LoadUint32(&image[trie.Default])) & lookup.MaxNextHopID
	var next [block]struct{ word, lane uint32 } // references to follow
	n := 0
	for i := range src {
		a := &src[i]
		word := atomic.LoadUint32(&image[uint32(a[0])<<16|uint32(a[1])<<8|uint32(a[2])])
		dst[i] = lookup.NextHopID(word) & lookup.MaxNextHopID
		next[n%block].word, next[n%block].lane = word, uint32(i)
		n += int(word >> 31)
	}
	for level := trie.RootBits / 8; n > 0; level++ {
		todo := next[:n]
		n = 0
		for _, t := range todo {
			word := atomic.LoadUint32(&image[t.word&^trie.Reference+uint32(src[t.lane][level%16])])
			dst[t.lane] = lookup.NextHopID(word) & lookup.MaxNextHopID
			next[n%block].word, next[n%block].lane = word, t.lane
			n += int(word >> 31)
		}
	}
	for i, nh := range dst {
		if nh == lookup.Miss {
			dst[i] = fallback
		}
	}
}
