package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup/trie"
	"github.com/warproute/warproute/lookup/trie/asm"
)

const lanes256 = 8

// kernel256 generates the AVX2 kernel.
func kernel256() {
	k := asm.Begin("lookupAVX2", "lookupAVX2 looks up n addresses, a multiple of 8.", "[16]byte", addrBytes)
	k.LoadBatch()
	c := &constants256{
		kernel:  k,
		swapped: swap("swap256", lanes256),
		// Lanes are in the order of the addresses after unpacking.
		lane:  asm.Dwords("lane256", 0, 32, 64, 96, 16, 48, 80, 112),
		order: asm.Dwords("order256", 0, 4, 1, 5, 2, 6, 3, 7),
	}
	k.While("several", together*lanes256, func() { c.lookup("several", together) })
	k.While("single", lanes256, func() { c.lookup("single", 1) })
	asm.End()
}

// constants256 are the constants of the AVX2 kernel.
type constants256 struct {
	kernel               asm.Kernel
	swapped, lane, order Mem
}

// vectors256 are vectors of addresses in one walk.
type vectors256 struct {
	*constants256
	first, second, words []reg.VecVirtual // 32-bit parts of the addresses; words of the image
}

// lookup generates the lookup of a number of vectors.
func (c *constants256) lookup(name string, vectors int) {
	s := vectors256{c, registers(vectors, YMM), registers(vectors, YMM), registers(vectors, YMM)}
	for v := range vectors {
		s.load(v)
	}
	for v := range vectors {
		index, all := YMM(), YMM()
		VPSRLD(U8(32-trie.RootBits), s.first[v], index)
		VPCMPEQD(all, all, all)
		VPXOR(s.words[v], s.words[v], s.words[v])
		VPGATHERDD(all, c.kernel.Indexed(index), s.words[v])
	}
	walker{name, c.kernel, vectors, s}.walk(rootBytes)
	hops, order := asm.NewHops256(c.kernel), YMM()
	VMOVDQU(c.order, order)
	for v, words := range s.words {
		hops.Convert(words)
		VPERMD(words, order, words)
		VMOVDQU(words, Mem{Base: c.kernel.Dst, Disp: v * lanes256 * asm.Word})
	}
}

// load loads the upper 64 bits of 8 addresses into vector v.
func (s vectors256) load(v int) {
	q := registers(4, YMM) // two addresses each
	for i := range q {
		VMOVDQU(Mem{Base: s.kernel.Src, Disp: (v*lanes256 + i*2) * addrBytes}, q[i])
	}
	VPUNPCKLDQ(q[1], q[0], q[0]) // two first parts, two second parts, in each half
	VPUNPCKLDQ(q[3], q[2], q[2])
	VPUNPCKLQDQ(q[2], q[0], s.first[v])
	VPUNPCKHQDQ(q[2], q[0], s.second[v])
	VPSHUFB(s.swapped, s.first[v], s.first[v])
	VPSHUFB(s.swapped, s.second[v], s.second[v])
}

func (s vectors256) leaveIfRoutes(label string) {
	signs, any := s.words[0], GP32()
	for _, w := range s.words[1:] {
		other := signs
		signs = YMM()
		VPOR(w, other, signs)
	}
	VMOVMSKPS(signs, any)
	TESTL(any, any)
	JZ(LabelRef(label))
}

func (s vectors256) index(v, byteOf int) reg.VecVirtual {
	index, from := YMM(), s.first[v]
	if byteOf >= 4 {
		from = s.second[v]
	}
	VPSLLD(U8(byteOf%4*8), from, index)
	VPSRLD(U8(24), index, index)
	return index
}

func (s vectors256) indexAt(v int, addr reg.Register) reg.VecVirtual {
	index, lane, some := YMM(), YMM(), YMM()
	VMOVDQU(s.lane, lane)
	VMOVDQA(s.words[v], some)
	VPXOR(index, index, index)
	VPGATHERDD(some, Mem{Base: addr, Index: lane, Scale: 1, Disp: v * lanes256 * addrBytes}, index)
	VPSRLD(U8(24), index, index)
	return index
}

// descend uses words as gather masks: the reference bit is also the mask bit.
func (s vectors256) descend(v int, index reg.VecVirtual) {
	at := YMM()
	VPSLLD(U8(1), s.words[v], at)
	VPSRLD(U8(1), at, at)
	VPADDD(at, index, index)
	VMOVDQA(s.words[v], at)
	VPGATHERDD(at, s.kernel.Indexed(index), s.words[v])
}
