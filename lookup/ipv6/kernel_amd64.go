package ipv6

import (
	"golang.org/x/sys/cpu"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

func kernels() []trie.Kernel[[16]byte] {
	all := []trie.Kernel[[16]byte]{{Name: "avx512", Walk: avx512}, {Name: "avx2", Walk: avx2}, {Name: "go", Walk: walk}}
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ:
		return all
	case cpu.X86.HasAVX2:
		return all[1:]
	}
	return all[2:]
}

// few addresses are looked up faster one by one than as a filled-up block.
const few = 8

func avx512(image []uint32, dst []lookup.NextHop, src [][16]byte) {
	if n := len(src) &^ 63; n > 0 {
		walkAVX512(&image[0], (*uint32)(&dst[0]), &src[0], n)
		dst, src = dst[n:], src[n:]
	}
	if len(src) < few {
		walk(image, dst, src)
		return
	}
	var in [64][16]byte
	var out [64]lookup.NextHop
	copy(in[:], src)
	walkAVX512(&image[0], (*uint32)(&out[0]), &in[0], 64)
	copy(dst, out[:len(src)])
}

func avx2(image []uint32, dst []lookup.NextHop, src [][16]byte) {
	if n := len(src) &^ 31; n > 0 {
		walkAVX2(&image[0], (*uint32)(&dst[0]), &src[0], n)
		dst, src = dst[n:], src[n:]
	}
	if len(src) < few {
		walk(image, dst, src)
		return
	}
	var in [32][16]byte
	var out [32]lookup.NextHop
	copy(in[:], src)
	walkAVX2(&image[0], (*uint32)(&out[0]), &in[0], 32)
	copy(dst, out[:len(src)])
}
