package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup/trie"
	"github.com/warproute/warproute/lookup/trie/asm"
)

const lanes512 = 16

// kernels512 generates the AVX-512 kernels: for the table, and for VRFs.
func kernels512() {
	table := asm.BeginTable("[16]byte", addrBytes)
	table.CheckLength()
	kernel512(table, nil)
	k, vrfs := asm.BeginVRFs("lookupVRFs512", "lookupVRFs512 looks up n addresses in VRFs.", "[16]byte", addrBytes)
	kernel512(k, &vrfs)
}

var (
	swap512  = swap("swap512", lanes512)
	split512 = asm.Dwords("split512", 0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29)
	lane512  = asm.Dwords("lane512", 0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240)
)

// kernel512 generates a kernel. vrfs is nil for the table.
func kernel512(k asm.Kernel, vrfs *asm.VRFs) {
	k.UntilStable(func() {
		c := &constants512{
			kernel: k, vrfs: vrfs, all: K(),
			low: asm.Broadcast512(trie.NodeWords - 1), offset: asm.Broadcast512(trie.Reference - 1),
			swapped: ZMM(), split: ZMM(), lane: ZMM(),
		}
		if vrfs == nil {
			c.convert = asm.NewHops512(k).Convert
		} else {
			vrfs.Load()
			mask := asm.Broadcast512(1<<trie.NextHopBits - 1)
			c.convert = func(words reg.VecVirtual) { VPANDD(mask, words, words) }
		}
		KXNORW(c.all, c.all, c.all)
		VMOVDQU32(swap512, c.swapped)
		VMOVDQU32(split512, c.split)
		VMOVDQU32(lane512, c.lane)
		k.While("several", together*lanes512, func() { c.lookup("several", together, nil) })
		k.While("single", lanes512, func() { c.lookup("single", 1, nil) })
		k.Rest(func() {
			part := &part512{lanes: asm.LowBits(k.N), halves: GP64()}
			MOVQ(I32(-1), part.halves)
			ADDQ(k.N, k.N)
			BZHIQ(k.N, part.halves, part.halves)
			c.lookup("rest", 1, part)
		})
	})
	asm.End()
	if vrfs == nil {
		asm.Slow()
	}
}

// constants512 are the constants of the AVX-512 kernel.
type constants512 struct {
	kernel                            asm.Kernel
	vrfs                              *asm.VRFs                  // nil: the table
	convert                           func(words reg.VecVirtual) // to next hops
	low, offset, swapped, split, lane reg.VecVirtual
	all                               reg.OpmaskVirtual
}

// part512 masks the lanes of a partial vector.
type part512 struct {
	lanes  reg.OpmaskVirtual
	halves reg.GPVirtual // one bit per 64 bits of the addresses
}

// vectors512 are vectors of addresses in one walk.
type vectors512 struct {
	*constants512
	first, second, words []reg.VecVirtual    // 32-bit parts of the addresses; words of the image
	references           []reg.OpmaskVirtual // lanes with references
}

// lookup generates the lookup of a number of vectors; part is nil for full vectors.
func (c *constants512) lookup(name string, vectors int, part *part512) {
	s := vectors512{c, registers(vectors, ZMM), registers(vectors, ZMM), make([]reg.VecVirtual, vectors), registers(vectors, K)}
	all := c.all
	if part != nil {
		all = part.lanes
	}
	for v := range vectors {
		s.words[v] = s.load(v, part)
	}
	from := rootBytes
	if c.vrfs != nil {
		from = 0
		c.vrfs.Words512(c.kernel, s.words, all)
	}
	for v := range vectors {
		if c.vrfs == nil {
			index := ZMM()
			VPSRLD(U8(32-trie.RootBits), s.first[v], index)
			if part != nil {
				VPXORD(s.words[v], s.words[v], s.words[v])
			}
			KMOVW(all, s.references[v])
			VPGATHERDD(c.kernel.Indexed(index), s.references[v], s.words[v])
		}
		VPMOVD2M(s.words[v], s.references[v])
	}
	walker{name, c.kernel, vectors, s}.walk(from)
	for v, words := range s.words {
		to := Mem{Base: c.kernel.Dst, Disp: v * lanes512 * asm.Word}
		c.convert(words)
		if part == nil {
			VMOVDQU32(words, to)
		} else {
			VMOVDQU32(words, part.lanes, to)
		}
	}
}

// load loads the upper 64 bits of 16 addresses into vector v. It returns the destination of the first
// gather: a register with values of this vector, so that the gather depends on no other.
func (s vectors512) load(v int, part *part512) (words reg.VecVirtual) {
	q := registers(4, ZMM) // four addresses each
	for i := range q {
		from := Mem{Base: s.kernel.Src, Disp: (v*lanes512 + i*4) * addrBytes}
		if part == nil {
			VMOVDQU32(from, q[i])
			continue
		}
		some := K()
		KMOVB(part.halves.As32(), some)
		SHRL(U8(8), part.halves.As32())
		VMOVDQU64_Z(from, some, q[i])
	}
	front, back := ZMM(), ZMM() // eight first parts, eight second parts
	VMOVDQA32(s.split, front)
	VMOVDQA32(s.split, back)
	VPERMI2D(q[1], q[0], front)
	VPERMI2D(q[3], q[2], back)
	VSHUFI64X2(U8(0x44), back, front, s.first[v])
	VSHUFI64X2(U8(0xee), back, front, s.second[v])
	VPSHUFB(s.swapped, s.first[v], s.first[v])
	VPSHUFB(s.swapped, s.second[v], s.second[v])
	return front
}

func (s vectors512) leaveIfRoutes(label string) {
	any := s.references[0]
	for _, r := range s.references[1:] {
		other := any
		any = K()
		KORW(other, r, any)
	}
	KORTESTW(any, any)
	JZ(LabelRef(label))
}

func (s vectors512) index(v, byteOf int) reg.VecVirtual {
	index, from := ZMM(), s.first[v]
	if byteOf >= 4 {
		from = s.second[v]
	}
	VPSRLD(U8(24-byteOf%4*8), from, index)
	VPANDD(s.low, index, index)
	return index
}

func (s vectors512) indexAt(v int, addr reg.Register) reg.VecVirtual {
	index, some := ZMM(), K()
	KMOVW(s.references[v], some)
	VPGATHERDD(Mem{Base: addr, Index: s.lane, Scale: 1, Disp: v * lanes512 * addrBytes}, some, index)
	VPSRLD(U8(24), index, index)
	return index
}

func (s vectors512) descend(v int, index reg.VecVirtual) {
	at := ZMM()
	VPANDD(s.offset, s.words[v], at)
	VPADDD(at, index, index)
	VPGATHERDD(s.kernel.Indexed(index), s.references[v], s.words[v])
	VPMOVD2M(s.words[v], s.references[v])
}
