package ipv6

import (
	"runtime"

	"golang.org/x/sys/cpu"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

func kernels() []trie.Kernel[[16]byte] {
	all := []trie.Kernel[[16]byte]{{Name: trie.AVX512, Walk: avx512}, {Name: "avx2", Walk: avx2}, {Name: "go", Walk: walk}}
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2:
		return all
	case cpu.X86.HasAVX2:
		return all[1:]
	}
	return all[2:]
}

// LookupBatch stores the next hop of src[i] in dst[i]. It panics if dst is shorter than
// src, and allocates nothing.
//
// With AVX-512 it calls the kernel directly: fewer instructions between the gathers of
// successive small batches let more of their cache misses overlap.
func (t *Table) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	im := t.AVX512()
	if im == nil || len(src) == 0 || len(src) > trie.MaxBatch || len(src) > len(dst) {
		t.Batched.LookupBatch(dst, src)
		return
	}
	lookupAVX512(im.First(), (*uint32)(&dst[0]), &src[0], len(src))
	runtime.KeepAlive(im)
}

func avx512(image []uint32, dst []lookup.NextHop, src [][16]byte) {
	lookupAVX512(&image[0], (*uint32)(&dst[0]), &src[0], len(src))
}

func avx2(image []uint32, dst []lookup.NextHop, src [][16]byte) {
	n := len(src) &^ 7
	if n > 0 {
		lookupAVX2(&image[0], (*uint32)(&dst[0]), &src[0], n)
	}
	walk(image, dst[n:], src[n:])
}
