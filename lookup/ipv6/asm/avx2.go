package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup/trie"
)

func kernel256() {
	const lanes, vectors = 8, 4
	a := begin("walkAVX2", "walkAVX2 looks up n addresses, a multiple of 32.")
	swapped := swap("swap256", lanes)
	// Lanes are in the order in which unpacking leaves the addresses.
	lane := dwords("lane256", 0, 32, 64, 96, 16, 48, 80, 112)
	order := dwords("order256", 0, 4, 1, 5, 2, 6, 3, 7)

	var first, second, words [vectors]reg.VecVirtual // of 32-bit parts of the addresses; of the image
	for v := range vectors {
		first[v], second[v], words[v] = YMM(), YMM(), YMM()
	}
	// descend replaces the references of a vector by what they and a byte of the
	// address, in index, lead to. The bit of a reference is that of a gather's mask.
	descend := func(v int, index reg.VecVirtual) {
		at := YMM()
		VPSLLD(U8(1), words[v], at)
		VPSRLD(U8(1), at, at)
		VPADDD(at, index, index)
		VMOVDQA(words[v], at)
		VPGATHERDD(at, Mem{Base: a.image, Index: index, Scale: word}, words[v])
	}
	unlessDeep := func(label string) {
		any, deep := YMM(), GP32()
		VPOR(words[0], words[1], any)
		VPOR(words[2], any, any)
		VPOR(words[3], any, any)
		VMOVMSKPS(any, deep)
		TESTL(deep, deep)
		JZ(LabelRef(label))
	}

	a.blocks(lanes*vectors, func() {
		for v := range vectors {
			var q [4]reg.VecVirtual // two addresses each
			for i := range q {
				q[i] = YMM()
				VMOVDQU(Mem{Base: a.src, Disp: (v*lanes + i*2) * addrBytes}, q[i])
			}
			VPUNPCKLDQ(q[1], q[0], q[0]) // first and second parts of two, of two others
			VPUNPCKLDQ(q[3], q[2], q[2])
			VPUNPCKLQDQ(q[2], q[0], first[v])
			VPUNPCKHQDQ(q[2], q[0], second[v])
			VPSHUFB(swapped, first[v], first[v])
			VPSHUFB(swapped, second[v], second[v])
		}
		for v := range vectors {
			index, all := YMM(), YMM()
			VPSRLD(U8(32-trie.RootBits), first[v], index)
			VPCMPEQD(all, all, all)
			VPXOR(words[v], words[v], words[v])
			VPGATHERDD(all, Mem{Base: a.image, Index: index, Scale: word}, words[v])
		}
		for level := rootBytes; level < 8; level++ {
			unlessDeep("routes")
			for v := range vectors {
				index, from := YMM(), first[v]
				if level >= 4 {
					from = second[v]
				}
				VPSLLD(U8(level%4*8), from, index)
				VPSRLD(U8(24), index, index)
				descend(v, index)
			}
		}
		// Few routes are longer than /64: their bytes are taken from memory again.
		addr, end := GP64(), GP64()
		LEAQ(Mem{Base: a.src, Disp: 8 - 3}, addr)
		LEAQ(Mem{Base: a.src, Disp: 16 - 3}, end)
		Label("level")
		unlessDeep("routes")
		for v := range vectors {
			index, lanesAt, some := YMM(), YMM(), YMM()
			VMOVDQU(lane, lanesAt)
			VMOVDQA(words[v], some)
			VPXOR(index, index, index)
			VPGATHERDD(some, Mem{Base: addr, Index: lanesAt, Scale: 1, Disp: v * lanes * addrBytes}, index)
			VPSRLD(U8(24), index, index)
			descend(v, index)
		}
		INCQ(addr)
		CMPQ(addr, end)
		JNE(LabelRef("level"))
		Label("routes")
		nextHop, fallback, zero, places := YMM(), YMM(), YMM(), YMM()
		VPCMPEQD(nextHop, nextHop, nextHop)
		VPSRLD(U8(32-trie.NextHopBits), nextHop, nextHop)
		VPBROADCASTD(Mem{Base: a.image, Disp: defaultWord}, fallback)
		VPAND(nextHop, fallback, fallback)
		VPXOR(zero, zero, zero)
		VMOVDQU(order, places)
		for v := range vectors {
			none := YMM()
			VPAND(nextHop, words[v], words[v])
			VPCMPEQD(zero, words[v], none)
			VPAND(fallback, none, none)
			VPOR(none, words[v], words[v])
			VPERMD(words[v], places, words[v])
			VMOVDQU(words[v], Mem{Base: a.dst, Disp: v * lanes * word})
		}
	})
}
