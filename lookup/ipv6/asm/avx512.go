package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

func kernel512() {
	const lanes, vectors = 16, 4
	a := begin("walkAVX512", "walkAVX512 looks up n addresses, a multiple of 64.")
	constant := GP32()
	broadcast := func(v uint32) reg.VecVirtual {
		z := ZMM()
		MOVL(U32(v), constant)
		VPBROADCASTD(constant, z)
		return z
	}
	low, nextHop, place := broadcast(trie.Group-1), broadcast(uint32(lookup.MaxNextHop)), broadcast(trie.Reference-1)
	fallback, swapped, split, lane := ZMM(), ZMM(), ZMM(), ZMM()
	VPBROADCASTD(Mem{Base: a.image, Disp: defaultWord}, fallback)
	VPANDD(nextHop, fallback, fallback)
	VMOVDQU32(swap("swap512", lanes), swapped)
	VMOVDQU32(dwords("split512", 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29), split)
	VMOVDQU32(dwords("lane512", 0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240), lane)
	all := K()
	KXNORW(all, all, all)

	var first, second, words [vectors]reg.VecVirtual // of 32-bit parts of the addresses; of the image
	var deep [vectors]reg.OpmaskVirtual              // where a word is a reference
	for v := range vectors {
		first[v], second[v], words[v], deep[v] = ZMM(), ZMM(), ZMM(), K()
	}
	// descend replaces the references of a vector by what they and a byte of the
	// address, in index, lead to.
	descend := func(v int, index reg.VecVirtual) {
		at := ZMM()
		VPANDD(place, words[v], at)
		VPADDD(at, index, index)
		VPGATHERDD(Mem{Base: a.image, Index: index, Scale: word}, deep[v], words[v])
		VPMOVD2M(words[v], deep[v])
	}
	unlessDeep := func(label string) {
		one, other := K(), K()
		KORW(deep[0], deep[1], one)
		KORW(deep[2], deep[3], other)
		KORTESTW(one, other)
		JZ(LabelRef(label))
	}

	a.blocks(lanes*vectors, func() {
		for v := range vectors {
			var q [4]reg.VecVirtual // four addresses each
			for i := range q {
				q[i] = ZMM()
				VMOVDQU32(Mem{Base: a.src, Disp: (v*lanes + i*4) * addrBytes}, q[i])
			}
			front, back := ZMM(), ZMM() // eight first parts, eight second parts
			VMOVDQA32(split, front)
			VMOVDQA32(split, back)
			VPERMI2D(q[1], q[0], front)
			VPERMI2D(q[3], q[2], back)
			VSHUFI64X2(U8(0x44), back, front, first[v])
			VSHUFI64X2(U8(0xee), back, front, second[v])
			VPSHUFB(swapped, first[v], first[v])
			VPSHUFB(swapped, second[v], second[v])
		}
		for v := range vectors {
			index := ZMM()
			VPSRLD(U8(32-trie.RootBits), first[v], index)
			VPXORD(words[v], words[v], words[v])
			KMOVW(all, deep[v])
			VPGATHERDD(Mem{Base: a.image, Index: index, Scale: word}, deep[v], words[v])
			VPMOVD2M(words[v], deep[v])
		}
		for level := rootBytes; level < 8; level++ {
			unlessDeep("routes")
			for v := range vectors {
				index, from := ZMM(), first[v]
				if level >= 4 {
					from = second[v]
				}
				VPSRLD(U8(24-level%4*8), from, index)
				VPANDD(low, index, index)
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
			index, some := ZMM(), K()
			KMOVW(deep[v], some)
			VPGATHERDD(Mem{Base: addr, Index: lane, Scale: 1, Disp: v * lanes * addrBytes}, some, index)
			VPSRLD(U8(24), index, index)
			descend(v, index)
		}
		INCQ(addr)
		CMPQ(addr, end)
		JNE(LabelRef("level"))
		Label("routes")
		for v := range vectors {
			found, nh := K(), ZMM()
			VPTESTMD(nextHop, words[v], found)
			VMOVDQA32(fallback, nh)
			VPANDD(nextHop, words[v], found, nh)
			VMOVDQU32(nh, Mem{Base: a.dst, Disp: v * lanes * word})
		}
	})
}
