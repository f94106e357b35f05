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

// kernel512 generates LookupBatch for AVX-512. It has no prefetches, so that the gathers of
// more vectors and calls fit into the processor's reorder buffer and overlap. For the same
// reason one full vector, a small batch, takes a path without loop and tail.
//
// It loads the image itself. Assembly has no safepoint, so the garbage collector cannot unmap
// the image during a batch. What it does not look up, it passes on to Go.
func kernel512() {
	const lanes = 16
	TEXT("lookupBatch", NOSPLIT, "func(table *byte, dst, src *uint32, n int)")
	Doc("lookupBatch looks up n addresses in a Table.")
	Pragma("noescape")
	k := asm.NewKernel(asm.Word)
	Load(Param("table"), k.Image)
	MOVQ(Mem{Base: k.Image}, k.Image) // trie.Batched.avx512
	MOVQ(Mem{Base: k.Image}, k.Image) // trie.Table.image
	k.LoadBatch()
	TESTQ(k.Image, k.Image)
	JZ(LabelRef("slow"))
	MOVQ(Mem{Base: k.Image}, k.Image) // trie.Image.words
	CMPQ(k.N, U8(lanes))
	JNE(LabelRef("many"))

	var below []func()
	before, mask, all := GP32(), ZMM(), K()
	Label("one")
	MOVL(k.Generation(), before)
	addr := ZMM()
	VMOVDQU32(Mem{Base: k.Src}, addr)
	VPBROADCASTD(constant("hops", 1<<trie.NextHopBits-1), mask)
	KXNORW(all, all, all)
	words := find(k, addr, all, "one_routes", &below)
	none := K()
	VPTESTNMD(mask, words, none)
	VPBROADCASTD(k.Default(), none, words)
	VPANDD(mask, words, words)
	VMOVDQU32(words, Mem{Base: k.Dst})
	CMPL(k.Generation(), before)
	JNE(LabelRef("one"))
	VZEROUPPER()
	RET()

	Label("many")
	last := GP64()
	LEAQ(Mem{Base: k.N, Disp: -1}, last)
	CMPQ(last, U32(trie.MaxBatch))
	JAE(LabelRef("slow"))
	k.UntilStable(func() {
		hops, all := asm.NewHops512(k), K()
		KXNORW(all, all, all)
		k.While("vector", lanes, func() {
			addr := ZMM()
			VMOVDQU32(Mem{Base: k.Src}, addr)
			words := find(k, addr, all, "routes", &below)
			hops.Convert(words)
			VMOVDQU32(words, Mem{Base: k.Dst})
		})
		k.Rest(func() {
			addr, rest := ZMM(), asm.LowBits(k.N)
			VMOVDQU32_Z(Mem{Base: k.Src}, rest, addr)
			words := find(k, addr, rest, "rest_routes", &below)
			hops.Convert(words)
			VMOVDQU32(words, rest, Mem{Base: k.Dst})
		})
	})
	asm.End()
	for _, f := range below {
		f()
	}
	Label("slow")
	asm.TailCall("lookupSlow")
}

// find generates the lookup of a vector of addresses, and returns their final words. It appends
// to below the generator of the second step, for the few vectors with references.
func find(k asm.Kernel, addr reg.VecVirtual, lanes reg.OpmaskVirtual, routes string, below *[]func()) reg.VecVirtual {
	index, words, references := ZMM(), ZMM(), K()
	VPSRLD(U8(32-trie.RootBits), addr, index)
	VPXORD(words, words, words)
	KMOVW(lanes, references)
	VPGATHERDD(k.Indexed(index), references, words)
	VPMOVD2M(words, references)
	KORTESTW(references, references)
	JNZ(LabelRef(routes + "_below"))
	Label(routes)
	*below = append(*below, func() {
		Label(routes + "_below")
		VPANDD_BCST(constant("low", trie.NodeWords-1), addr, index)
		VPADDD(words, index, index)
		VPSLLD(U8(1), index, index) // clears the reference bit
		VPSRLD(U8(1), index, index)
		VPGATHERDD(k.Indexed(index), references, words)
		JMP(LabelRef(routes))
	})
	return words
}

var constants = map[string]Mem{}

// constant returns the operand for a constant in memory.
func constant(name string, value uint32) Mem {
	if _, ok := constants[name]; !ok {
		constants[name] = asm.Dwords(name, value)
	}
	return constants[name]
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
