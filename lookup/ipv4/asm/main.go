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
	vrfs512()
	Generate()
}

// kernel512 generates LookupBatch for AVX-512. It has no prefetches, so that the gathers of
// more vectors and calls fit into the processor's reorder buffer and overlap. For the same
// reason one full vector, a small batch, takes a path without loop and tail.
func kernel512() {
	const lanes = 16
	k := asm.BeginTable("uint32", asm.Word)
	CMPQ(k.N, U8(lanes))
	JNE(LabelRef("many"))

	var below []func()
	before, mask, all, none := GP32(), ZMM(), K(), K()
	Label("one")
	MOVL(k.Generation(), before)
	words := ZMM()
	VMOVDQU32(Mem{Base: k.Src}, words)
	VPBROADCASTD(constant("hops", 1<<trie.NextHopBits-1), mask)
	KXNORW(all, all, all)
	find(k, words, all, "one_routes", &below)
	VPTESTNMD(mask, words, none)
	VPBROADCASTD(k.Default(), none, words)
	VPANDD(mask, words, words)
	VMOVDQU32(words, Mem{Base: k.Dst})
	CMPL(k.Generation(), before)
	JNE(LabelRef("one"))
	VZEROUPPER()
	RET()

	Label("many")
	k.CheckLength()
	k.UntilStable(func() {
		hops, all := asm.NewHops512(k), K()
		KXNORW(all, all, all)
		k.While("vector", lanes, func() {
			words := ZMM()
			VMOVDQU32(Mem{Base: k.Src}, words)
			find(k, words, all, "routes", &below)
			hops.Convert(words)
			VMOVDQU32(words, Mem{Base: k.Dst})
		})
		k.Rest(func() {
			words, rest := ZMM(), asm.LowBits(k.N)
			VMOVDQU32_Z(Mem{Base: k.Src}, rest, words)
			find(k, words, rest, "rest_routes", &below)
			hops.Convert(words)
			VMOVDQU32(words, rest, Mem{Base: k.Dst})
		})
	})
	asm.End()
	for _, f := range below {
		f()
	}
	asm.Slow()
}

// find generates the lookup of the vector of addresses at k.Src: it replaces them in words, with 0 in
// unused lanes, by their final words. It appends to below the generator of the second step, for the
// few vectors with references.
//
// The gather's destination holds the addresses: a gather reads its destination, which is thus neither
// cleared before nor the result of the gather before.
func find(k asm.Kernel, words reg.VecVirtual, lanes reg.OpmaskVirtual, routes string, below *[]func()) {
	index, references := ZMM(), K()
	VPSRLD(U8(32-trie.RootBits), words, index)
	KMOVW(lanes, references)
	VPGATHERDD(k.Indexed(index), references, words)
	VPMOVD2M(words, references)
	KORTESTW(references, references)
	JNZ(LabelRef(routes + "_below"))
	Label(routes)
	*below = append(*below, func() {
		Label(routes + "_below")
		VPBROADCASTD(constant("low", trie.NodeWords-1), index)
		VPANDD_Z(Mem{Base: k.Src}, index, lanes, index)
		VPADDD(words, index, index)
		VPSLLD(U8(1), index, index) // clears the reference bit
		VPSRLD(U8(1), index, index)
		VPGATHERDD(k.Indexed(index), references, words)
		JMP(LabelRef(routes))
	})
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

// vrfs512 generates the AVX-512 kernel of lookups in VRFs, which starts at a word per VRF.
func vrfs512() {
	const lanes, together = 16, 4
	k, vrfs := asm.BeginVRFs("lookupVRFs512", "lookupVRFs512 looks up n addresses in VRFs.", "uint32", asm.Word)
	k.UntilStable(func() {
		vrfs.Load()
		mask, low := asm.Broadcast512(1<<trie.NextHopBits-1), asm.Broadcast512(trie.NodeWords-1)
		offset, all := asm.Broadcast512(trie.Reference-1), K()
		KXNORW(all, all, all)
		find := func(n int, lanes reg.OpmaskVirtual, routes string) (words []reg.VecVirtual) {
			var addrs []reg.VecVirtual
			references := make([]reg.OpmaskVirtual, n)
			for v := range n {
				addrs, words, references[v] = append(addrs, ZMM()), append(words, ZMM()), K()
				VMOVDQU32_Z(Mem{Base: k.Src, Disp: v * 64}, lanes, addrs[v])
			}
			vrfs.Words512(k, words, lanes)
			for v := range n {
				VPMOVD2M(words[v], references[v])
			}
			for shift := 32 - trie.NodeBits; shift >= 0; shift -= trie.NodeBits {
				any := references[0]
				for _, r := range references[1:] {
					other := any
					any = K()
					KORW(other, r, any)
				}
				KORTESTW(any, any)
				JZ(LabelRef(routes))
				for v := range n {
					index, at := ZMM(), ZMM()
					VPSRLD(U8(shift), addrs[v], index)
					VPANDD(low, index, index)
					VPANDD(offset, words[v], at)
					VPADDD(at, index, index)
					VPGATHERDD(k.Indexed(index), references[v], words[v])
					VPMOVD2M(words[v], references[v])
				}
			}
			Label(routes)
			for v := range n {
				VPANDD(mask, words[v], words[v])
			}
			return words
		}
		k.While("several", together*lanes, func() {
			words := find(together, all, "several_routes")
			for v, w := range words {
				VMOVDQU32(w, Mem{Base: k.Dst, Disp: v * 64})
			}
		})
		k.While("single", lanes, func() {
			words := find(1, all, "single_routes")
			VMOVDQU32(words[0], Mem{Base: k.Dst})
		})
		k.Rest(func() {
			rest := asm.LowBits(k.N)
			words := find(1, rest, "rest_routes")
			VMOVDQU32(words[0], rest, Mem{Base: k.Dst})
		})
	})
	asm.End()
}
