// Command asm writes the vector kernels of package ipv6; go generate runs it.
//
// A kernel takes a block of addresses through the trie together, level by level:
// the words of one level depend on nothing but those of the level above, so all
// the cache misses of a level overlap.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup/trie"
)

const (
	word        = 4                   // bytes
	defaultWord = word * trie.Default // bytes from the image's beginning
	addrBytes   = 16
	rootBytes   = trie.RootBits / 8
)

func main() {
	kernel512()
	kernel256()
	Generate()
}

// arguments are those of every kernel, in registers.
type arguments struct{ image, dst, src, n reg.Register }

func begin(name, doc string) arguments {
	TEXT(name, NOSPLIT, "func(image, dst *uint32, src *[16]byte, n int)")
	Doc(doc)
	Pragma("noescape")
	return arguments{
		image: Load(Param("image"), GP64()),
		dst:   Load(Param("dst"), GP64()),
		src:   Load(Param("src"), GP64()),
		n:     Load(Param("n"), GP64()),
	}
}

// blocks runs body for every block of so many addresses.
func (a arguments) blocks(block int, body func()) {
	Label("block")
	body()
	ADDQ(I32(block*addrBytes), a.src)
	ADDQ(I32(block*word), a.dst)
	SUBQ(I32(block), a.n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

func dwords(name string, values ...uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, v := range values {
		DATA(word*i, U32(v))
	}
	return m
}

// swap is, for VPSHUFB, the reversal of the bytes of each word.
func swap(name string, lanes int) Mem {
	values := make([]uint32, lanes)
	for i := range values {
		values[i] = 0x00010203 + 0x04040404*uint32(i%4)
	}
	return dwords(name, values...)
}
