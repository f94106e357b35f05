package ipv6

import (
	"golang.org/x/sys/cpu"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

func kernels() []trie.Kernel[[16]byte] {
	all := []trie.Kernel[[16]byte]{
		{Name: trie.AVX512, Walk: walk}, // for lookupSlow; lookupBatch has the lookup and the repetition
		{Name: "avx2", Walk: avx2},
		{Name: "go", Walk: walk},
	}
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasBMI2:
		return all
	case cpu.X86.HasAVX2:
		return all[1:]
	}
	return all[2:]
}

func avx2(image []uint32, dst []lookup.NextHopID, src [][16]byte) {
	n := len(src) &^ 7
	if n > 0 {
		lookupAVX2(&image[0], (*uint32)(&dst[0]), &src[0], n)
	}
	walk(image, dst[n:], src[n:])
}

// vrfKernel looks up addresses in VRFs. The kernel by AVX-512 has the same condition as that of tables.
var vrfKernel = func() func(image []uint32, dst []lookup.NextHopID, vrfs []uint16, src [][16]byte) {
	if kernels()[0].Name == trie.AVX512 {
		return vrfs512
	}
	return walkVRFs
}()

func vrfs512(image []uint32, dst []lookup.NextHopID, vrfs []uint16, src [][16]byte) {
	lookupVRFs512(&image[0], (*uint32)(&dst[0]), &vrfs[0], &src[0], len(src))
}
