// Command asm generates the vector kernels of package ipv4. It is run by go generate.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup/trie"
	"github.com/warproute/warproute/lookup/trie/asm"
)

func main() {
	kernel512()
	kernel256()
	Generate()
}

// kernel512 generates the AVX-512 kernel. It has no prefetches, so that the gathers of
// more vectors and calls fit into the processor's reorder buffer and overlap.
func kernel512() {
	const lanes = 16
	k := asm.Begin("lookupAVX512", "lookupAVX512 looks up n addresses.", "uint32", asm.Word)
	find := func(hops asm.Hops512, low, addr reg.VecVirtual, lanes reg.OpmaskVirtual, routes string) reg.VecVirtual {
		index, words, references := ZMM(), ZMM(), K()
		VPSRLD(U8(32-trie.RootBits), addr, index)
		VPXORD(words, words, words)
		KMOVW(lanes, references)
		VPGATHERDD(k.Indexed(index), references, words)

		VPMOVD2M(words, references)
		KORTESTW(references, references)
		JZ(LabelRef(routes))
		VPANDD(low, addr, index)
		VPADDD(words, index, index)
		VPSLLD(U8(1), index, index) // clears the reference bit
		VPSRLD(U8(1), index, index)
		VPGATHERDD(k.Indexed(index), references, words)
		Label(routes)
		hops.Convert(words)
		return words
	}
	k.UntilStable(func() {
		hops, low, all := asm.NewHops512(k), asm.Broadcast512(trie.NodeWords-1), K()
		KXNORW(all, all, all)
		k.While("vector", lanes, func() {
			addr := ZMM()
			VMOVDQU32(Mem{Base: k.Src}, addr)
			VMOVDQU32(find(hops, low, addr, all, "routes"), Mem{Base: k.Dst})
		})
		k.Rest(func() {
			addr, rest := ZMM(), asm.LowBits(k.N)
			VMOVDQU32_Z(Mem{Base: k.Src}, rest, addr)
			VMOVDQU32(find(hops, low, addr, rest, "rest_routes"), rest, Mem{Base: k.Dst})
		})
	})
	asm.End()
}

// block is the number of addresses that kernel256 prefetches before it looks them up, so
// that their cache misses overlap.
const block = 64

// kernel256 generates the AVX2 kernel, for processors with slow gathers.
func kernel256() {
	const lanes = 8
	k := asm.Begin("lookupAVX2", "lookupAVX2 looks up n addresses, a multiple of 8.", "uint32", asm.Word)
	k.LoadBatch()
	hops, low := asm.NewHops256(k), YMM()
	VPCMPEQD(low, low, low)
	VPSRLD(U8(32-trie.NodeBits), low, low)
	vector := func(routes string) {
		addr, index, words, mask := YMM(), YMM(), YMM(), YMM()
		VMOVDQU(Mem{Base: k.Src}, addr)
		VPSRLD(U8(32-trie.RootBits), addr, index)
		VPCMPEQD(mask, mask, mask)
		VPXOR(words, words, words)
		VPGATHERDD(mask, k.Indexed(index), words)

		references := GP32()
		VMOVMSKPS(words, references)
		TESTL(references, references)
		JZ(LabelRef(routes))
		VMOVDQA(words, mask) // the reference bit is also the mask bit of a gather
		VPAND(low, addr, index)
		VPADDD(words, index, index)
		VPSLLD(U8(1), index, index)
		VPSRLD(U8(1), index, index)
		VPGATHERDD(mask, k.Indexed(index), words)
		Label(routes)
		hops.Convert(words)
		VMOVDQU(words, Mem{Base: k.Dst})
	}
	k.While("block", block, func() {
		at, end := GP64(), GP64()
		XORQ(at, at)
		Label("prefetch")
		for i := range 8 {
			index := GP64()
			MOVL(Mem{Base: k.Src, Index: at, Scale: asm.Word, Disp: i * asm.Word}, index.As32())
			SHRL(U8(32-trie.RootBits), index.As32())
			PREFETCHT0(k.Indexed(index))
		}
		ADDQ(U8(8), at)
		CMPQ(at, U8(block))
		JLT(LabelRef("prefetch"))
		LEAQ(Mem{Base: k.Src, Disp: block * asm.Word}, end)
		Label("prefetched")
		vector("prefetched_routes")
		ADDQ(U8(lanes*asm.Word), k.Src)
		ADDQ(U8(lanes*asm.Word), k.Dst)
		CMPQ(k.Src, end)
		JNE(LabelRef("prefetched"))
		SUBQ(I32(block*asm.Word), k.Src)
		SUBQ(I32(block*asm.Word), k.Dst)
	})
	k.While("vector", lanes, func() { vector("routes") })
	asm.End()
}
