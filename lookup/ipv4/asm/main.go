// Command asm writes the vector kernels of package ipv4; go generate runs it.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

// block is how many addresses are prefetched before the first is looked up. A
// gather waits for one line after another; prefetches wait for nothing, so a
// block's cache misses overlap, as many as the processor can have under way.
const block = 64

const (
	word        = 4                   // bytes
	defaultWord = word * trie.Default // bytes from the image's beginning
)

func main() {
	kernel512()
	kernel256()
	Generate()
}

// arguments are those of every kernel, in registers.
type arguments struct{ image, dst, src, n reg.Register }

func begin(name, doc string) arguments {
	TEXT(name, NOSPLIT, "func(image, dst, src *uint32, n int)")
	Doc(doc)
	Pragma("noescape")
	return arguments{
		image: Load(Param("image"), GP64()),
		dst:   Load(Param("dst"), GP64()),
		src:   Load(Param("src"), GP64()),
		n:     Load(Param("n"), GP64()),
	}
}

// blocks runs body for every lanes addresses, after the prefetch of those of its block.
func (a arguments) blocks(lanes int, body func()) {
	inBlock, at, index := GP64(), GP64(), GP64()
	Label("block")
	TESTQ(a.n, a.n)
	JZ(LabelRef("done"))
	MOVQ(U32(block), inBlock)
	CMPQ(a.n, inBlock)
	CMOVQLT(a.n, inBlock)
	SUBQ(inBlock, a.n)

	XORQ(at, at)
	Label("prefetch")
	const unroll = 8
	for i := range unroll {
		MOVL(Mem{Base: a.src, Index: at, Scale: word, Disp: i * word}, index.As32())
		SHRL(U8(32-trie.RootBits), index.As32())
		PREFETCHT0(Mem{Base: a.image, Index: index, Scale: word})
	}
	ADDQ(U8(unroll), at)
	CMPQ(at, inBlock)
	JLT(LabelRef("prefetch"))

	Label("vector")
	body()
	ADDQ(U8(lanes*word), a.src)
	ADDQ(U8(lanes*word), a.dst)
	SUBQ(U8(lanes), inBlock)
	JNZ(LabelRef("vector"))
	JMP(LabelRef("block"))
	Label("done")
}

func kernel512() {
	a := begin("walkAVX512", "walkAVX512 looks up n addresses, a multiple of 16.")
	fallback, low, nextHop, all := ZMM(), ZMM(), ZMM(), K()
	VPBROADCASTD(Mem{Base: a.image, Disp: defaultWord}, fallback)
	constant := GP32()
	MOVL(U32(trie.Group-1), constant)
	VPBROADCASTD(constant, low)
	MOVL(U32(lookup.MaxNextHop), constant)
	VPBROADCASTD(constant, nextHop)
	VPANDD(nextHop, fallback, fallback)
	KXNORW(all, all, all)

	a.blocks(16, func() {
		addr, index, words, deep := ZMM(), ZMM(), ZMM(), K()
		VMOVDQU32(Mem{Base: a.src}, addr)
		VPSRLD(U8(32-trie.RootBits), addr, index)
		VPXORD(words, words, words)
		KMOVW(all, deep)
		VPGATHERDD(Mem{Base: a.image, Index: index, Scale: word}, deep, words)

		VPMOVD2M(words, deep)
		KORTESTW(deep, deep)
		JZ(LabelRef("routes512"))
		VPANDD(low, addr, index)
		VPADDD(words, index, index)
		VPSLLD(U8(1), index, index) // drops the bit of a reference
		VPSRLD(U8(1), index, index)
		VPGATHERDD(Mem{Base: a.image, Index: index, Scale: word}, deep, words)
		Label("routes512")

		found := K()
		VPTESTMD(nextHop, words, found)
		VMOVDQA32(fallback, index)
		VPANDD(nextHop, words, found, index)
		VMOVDQU32(index, Mem{Base: a.dst})
	})
	VZEROUPPER()
	RET()
}

func kernel256() {
	a := begin("walkAVX2", "walkAVX2 looks up n addresses, a multiple of 8.")
	fallback, low, nextHop, zero := YMM(), YMM(), YMM(), YMM()
	VPBROADCASTD(Mem{Base: a.image, Disp: defaultWord}, fallback)
	VPCMPEQD(zero, zero, zero)
	VPSRLD(U8(24), zero, low)
	VPSRLD(U8(32-trie.NextHopBits), zero, nextHop)
	VPXOR(zero, zero, zero)
	VPAND(nextHop, fallback, fallback)

	a.blocks(8, func() {
		addr, index, words, mask := YMM(), YMM(), YMM(), YMM()
		VMOVDQU(Mem{Base: a.src}, addr)
		VPSRLD(U8(32-trie.RootBits), addr, index)
		VPCMPEQD(mask, mask, mask)
		VPXOR(words, words, words)
		VPGATHERDD(mask, Mem{Base: a.image, Index: index, Scale: word}, words)

		deep := GP32()
		VMOVMSKPS(words, deep)
		TESTL(deep, deep)
		JZ(LabelRef("routes256"))
		VMOVDQA(words, mask) // the bit of a reference is that of the mask
		VPAND(low, addr, index)
		VPADDD(words, index, index)
		VPSLLD(U8(1), index, index)
		VPSRLD(U8(1), index, index)
		VPGATHERDD(mask, Mem{Base: a.image, Index: index, Scale: word}, words)
		Label("routes256")

		VPAND(nextHop, words, words)
		VPCMPEQD(zero, words, mask)
		VPAND(fallback, mask, mask)
		VPOR(mask, words, words)
		VMOVDQU(words, Mem{Base: a.dst})
	})
	VZEROUPPER()
	RET()
}
