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
	Walk func(image []uint32, dst []lookup.NextHopID, src []A)
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
	Table
	kernels []Kernel[A] // fastest first
	walk    func(image []uint32, dst []lookup.NextHopID, src []A)
}

// NewBatched returns an empty table for addresses of 32 or 128 bits. It uses the first
// kernel.
func NewBatched[A any](bits int, kernels []Kernel[A]) Batched[A] {
	first := kernels[0]
	return Batched[A]{
		Table:   Table{direct: direct{enabled: first.Name == AVX512}, routes: newRoutes(), bits: bits},
		kernels: kernels, walk: first.Walk,
	}
}

// Use selects a kernel by name, for tests and benchmarks. It must not run concurrently
// with lookups.
func (t *Batched[A]) Use(name string) error {
	for _, k := range t.kernels {
		if k.Name == name {
			t.walk, t.direct.enabled = k.Walk, k.Name == AVX512
			t.direct.set(t.Image())
			return nil
		}
	}
	return fmt.Errorf("lookup kernel %q: this processor supports %v", name, Names(t.kernels))
}

// LookupBatch stores the next hop of src[i] in dst[i]. It panics if dst is shorter than
// src, and allocates nothing.
func (t *Batched[A]) LookupBatch(dst []lookup.NextHopID, src []A) {
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

// VRFBlock is the number of addresses that a walk of InVRFs gets: a walk level by level overlaps their cache
// misses.
const VRFBlock = 256

// InVRFs looks addresses up in VRFs: it stores the next hop of src[i] in the VRF vrfs[i] in dst[i], 0 for none, by walk,
// which gets up to VRFBlock addresses. The image may be nil.
func InVRFs[A any](im *Image, dst []lookup.NextHopID, vrfs []uint16, src []A, walk func(image []uint32, dst []lookup.NextHopID, vrfs []uint16, src []A)) {
	dst, vrfs = dst[:len(src)], vrfs[:len(src)]
	if im == nil {
		clear(dst)
		return
	}
	for at := 0; at < len(src); {
		end := min(at+VRFBlock, len(src))
		before := im.Generation()
		walk(im.words, dst[at:end], vrfs[at:end], src[at:end])
		if im.Generation() == before {
			at = end
		}
	}
	runtime.KeepAlive(im)
}
