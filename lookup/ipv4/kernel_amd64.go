package ipv4

import (
	"golang.org/x/sys/cpu"

	"github.com/warproute/warproute/lookup"
)

func kernels() []kernel {
	all := []kernel{{"avx512", avx512}, {"avx2", avx2}, {"go", walk}}
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ:
		return all
	case cpu.X86.HasAVX2:
		return all[1:]
	}
	return all[2:]
}

func avx512(image []uint32, dst []lookup.NextHop, src []uint32) {
	n := len(src) &^ 15
	if n > 0 {
		walkAVX512(&image[0], (*uint32)(&dst[0]), &src[0], n)
	}
	walk(image, dst[n:], src[n:])
}

func avx2(image []uint32, dst []lookup.NextHop, src []uint32) {
	n := len(src) &^ 7
	if n > 0 {
		walkAVX2(&image[0], (*uint32)(&dst[0]), &src[0], n)
	}
	walk(image, dst[n:], src[n:])
}
