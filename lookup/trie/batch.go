package trie

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/warproute/warproute/lookup"
)

// AVX512 is the name of the kernel that the LookupBatch methods of ipv4 and ipv6 call directly.
const AVX512 = "avx512"

// Kernel is an implementation of batch lookups of addresses of type A. All kernels of
// an address family return the same results.
type Kernel[A any] struct {
	Name string
	// Walk stores the next hop of src[i] in dst[i]. dst is as long as src, and not empty.
	Walk func(image []uint32, dst []lookup.NextHop, src []A)
}

// Names returns the names of kernels.
func Names[A any](kernels []Kernel[A]) (names []string) {
	for _, k := range kernels {
		names = append(names, k.Name)
	}
	return names
}

// Batched adds batch lookups to a Table.
type Batched[A any] struct {
	// avx512 is Table if LookupBatch uses AVX-512, otherwise a table without routes, so that
	// assembly checks only for routes.
	avx512 *Table
	*Table
	kernels []Kernel[A] // fastest first
	walk    func(image []uint32, dst []lookup.NextHop, src []A)
}

// noRoutes is a table without routes.
var noRoutes Table

// NewBatched returns an empty table for addresses of 32 or 128 bits. It uses the first
// kernel.
func NewBatched[A any](bits int, kernels []Kernel[A]) Batched[A] {
	t := Batched[A]{Table: New(bits), kernels: kernels}
	t.use(kernels[0])
	return t
}

// Use selects a kernel by name, for tests and benchmarks. It must not run concurrently
// with lookups.
func (t *Batched[A]) Use(name string) error {
	for _, k := range t.kernels {
		if k.Name == name {
			t.use(k)
			return nil
		}
	}
	return fmt.Errorf("lookup kernel %q: this processor supports %v", name, Names(t.kernels))
}

func (t *Batched[A]) use(k Kernel[A]) {
	t.walk, t.avx512 = k.Walk, &noRoutes
	if k.Name == AVX512 {
		t.avx512 = t.Table
	}
}

// AVX512 returns the current image if LookupBatch uses AVX-512 and the table ever had a route,
// otherwise nil.
func (t *Batched[A]) AVX512() *Image { return t.avx512.Image() }

// LookupBatch stores the next hop of src[i] in dst[i]. It panics if dst is shorter than
// src, and allocates nothing.
func (t *Batched[A]) LookupBatch(dst []lookup.NextHop, src []A) {
	dst = dst[:len(src)]
	im := t.Image()
	if im == nil || len(src) == 0 {
		clear(dst)
		return
	}
	for ; len(src) > MaxBatch; dst, src = dst[MaxBatch:], src[MaxBatch:] {
		t.LookupBatch(dst[:MaxBatch], src[:MaxBatch])
	}
	for {
		before := atomic.LoadUint32(&im.words[Generation])
		t.walk(im.words, dst, src)
		if atomic.LoadUint32(&im.words[Generation]) == before {
			break
		}
	}
	runtime.KeepAlive(im)
}

// MaxBatch is the maximum number of addresses between two reads of the generation. It is
// small enough for a batch to complete next to a writer at its maximum rate.
const MaxBatch = 1024
