package ipv4

import (
	"fmt"
	"sync/atomic"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// walkFunc looks src up in the words of an image, into dst of the same length.
type walkFunc func(image []uint32, dst []lookup.NextHop, src []uint32)

// kernel is one way of looking up a batch. All give the same answers.
type kernel struct {
	name string
	walk walkFunc
}

// Kernels are the names of the ways of looking up a batch that this processor
// has, the fastest first: some of "avx512", "avx2", and "go".
func Kernels() (names []string) {
	for _, k := range kernels() {
		names = append(names, k.name)
	}
	return names
}

// Use has batches looked up by a kernel of the given name, for tests and
// benchmarks. It must not be called beside lookups.
func (t *Table) Use(name string) error {
	for _, k := range kernels() {
		if k.name == name {
			t.kernel = k
			return nil
		}
	}
	return fmt.Errorf("lookup kernel %q: this processor has %v", name, Kernels())
}

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
