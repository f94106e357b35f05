// Command asm writes planb_amd64.s: the search of package lookup6's PlanB, with
// AVX-512.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// lanes is how many addresses are walked side by side; planb_amd64.go says the
// same. With twice as many, their keys no longer fit the registers; with half as
// many, which would have their places in registers as well, too few cache misses
// overlap. Both were measured, and are slower.
const lanes = 16

const (
	log2NodeBytes = 6 // of eight keys
	greater       = 6 // VPCMPUQ's number for it: "not less or equal"
)

func main() {
	TEXT("searchAVX512", NOSPLIT, "func(dst []uint32, src [][16]byte, nodes [][8]uint64, levels, values []uint32) (all uint32)")

	// An address's first half, last byte first: the order of numbers here.
	reverse := GLOBL("reverse", RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(0x0001020304050607))
	}
	reversed := ZMM()
	VMOVDQU64(reverse, reversed)

	var (
		dst      = Load(Param("dst").Base(), GP64())
		src      = Load(Param("src").Base(), GP64())
		left     = Load(Param("src").Len(), GP64())
		nodes    = Load(Param("nodes").Base(), GP64())
		values   = Load(Param("values").Base(), GP64())
		all      = GP32()
		zero     = GP64()
		keys     [lanes]reg.VecVirtual   // each eight times
		at       = AllocLocal(8 * lanes) // bytes from a level's first node to the lane's
		level    = GP64()
		deeper   = GP64() // levels
		ofLevel  = GP64()
		position = func(lane int) Mem { return at.Offset(8 * lane) }
	)
	XORL(all, all)
	XORQ(zero, zero)

	Label("group")
	for i := range keys {
		keys[i] = ZMM()
		VPBROADCASTQ(Mem{Base: src, Disp: 16 * i}, keys[i])
		VPSHUFB(reversed, keys[i], keys[i])
		MOVQ(zero, position(i))
	}
	Load(Param("levels").Base(), level)
	Load(Param("levels").Len(), deeper)

	enter := func() {
		MOVL(Mem{Base: level}, ofLevel.As32())
		SHLQ(U8(log2NodeBytes), ofLevel)
		ADDQ(nodes, ofLevel)
	}
	// compare returns where a lane is and how many keys of that node are below its own.
	compare := func(lane int) (place, below reg.GPVirtual) {
		place, below = GP64(), GP64()
		isBelow := K()
		MOVQ(position(lane), place)
		VPCMPUQ(U8(greater), Mem{Base: ofLevel, Index: place, Scale: 1}, keys[lane], isBelow)
		KMOVB(isBelow, below.As32())
		POPCNTL(below.As32(), below.As32())
		return place, below
	}

	Comment("From the root to the leaves.")
	DECQ(deeper)
	JZ(LabelRef("leaves"))
	Label("inner")
	enter()
	for i := range lanes {
		place, below := compare(i)
		LEAQ(Mem{Base: place, Index: place, Scale: 8}, place) // nine children a node
		SHLQ(U8(log2NodeBytes), below)
		ADDQ(below, place)
		MOVQ(place, position(i))
	}
	ADDQ(U8(4), level)
	DECQ(deeper)
	JNZ(LabelRef("inner"))

	Label("leaves")
	enter()
	for i := range lanes {
		place, below := compare(i)
		SHRQ(U8(3), place) // from bytes of nodes to values: eight a node
		ADDQ(below, place)
		value := GP32()
		MOVL(Mem{Base: values, Index: place, Scale: 4}, value)
		ORL(value, all)
		MOVL(value, Mem{Base: dst, Disp: 4 * i})
	}

	ADDQ(U32(16*lanes), src)
	ADDQ(U8(4*lanes), dst)
	SUBQ(U8(lanes), left)
	JNZ(LabelRef("group"))
	Store(all, ReturnIndex(0))
	VZEROUPPER()
	RET()
	Generate()
}
