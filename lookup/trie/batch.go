package trie

import (
	"fmt"
	"runtime"

	"github.com/warproute/warproute/lookup"
)

// Kernel is one way of looking up a batch of addresses of type A. All kernels of a
// family give the same answers.
type Kernel[A any] struct {
	Name string
	// Walk looks src up in the words of an image, into dst of the same length.
	Walk func(image []uint32, dst []lookup.NextHop, src []A)
}

// Names are the names of kernels.
func Names[A any](kernels []Kernel[A]) (names []string) {
	for _, k := range kernels {
		names = append(names, k.Name)
	}
	return names
}

// Batched is a table that looks batches up.
type Batched[A any] struct {
	*Table
	kernels []Kernel[A] // the fastest first
	kernel  Kernel[A]
}

// NewBatched returns an empty table for addresses of so many bits, walked by the
// first of the kernels.
func NewBatched[A any](bits int, kernels []Kernel[A]) Batched[A] {
	return Batched[A]{Table: New(bits), kernels: kernels, kernel: kernels[0]}
}

// Use has batches looked up by the kernel of the given name, for tests and
// benchmarks. It must not be called beside lookups.
func (t *Batched[A]) Use(name string) error {
	for _, k := range t.kernels {
		if k.Name == name {
			t.kernel = k
			return nil
		}
	}
	return fmt.Errorf("lookup kernel %q: this processor has %v", name, Names(t.kernels))
}

// LookupBatch answers src[i] in dst[i]; dst is at least as long as src. It
// allocates nothing.
func (t *Batched[A]) LookupBatch(dst []lookup.NextHop, src []A) {
	dst = dst[:len(src)]
	im := t.Image()
	if im == nil {
		clear(dst)
		return
	}
	for ; len(src) > atOnce; dst, src = dst[atOnce:], src[atOnce:] {
		t.walk(im, dst[:atOnce], src[:atOnce])
	}
	t.walk(im, dst, src)
	runtime.KeepAlive(im)
}

// atOnce is how many addresses of a batch are looked up, and where a writer came
// between looked up again, together: so few that a writer at full speed lets them end.
const atOnce = 1024

// walk looks up until no group began another life meanwhile.
func (t *Batched[A]) walk(im *Image, dst []lookup.NextHop, src []A) {
	for reuses := im.Reuses(); ; {
		t.kernel.Walk(im.words, dst, src)
		now := im.Reuses()
		if now == reuses {
			return
		}
		reuses = now
	}
}
