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

	"github.com/warproute/warproute/lookup"
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
