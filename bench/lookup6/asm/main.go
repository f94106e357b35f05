// Command asm writes planb_amd64.s: the search of package lookup6's PlanB with
// AVX-512.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	lanes     = 8  // addresses walked side by side: as many as have registers
	nodeBytes = 64 // eight keys
)

func main() {
	// As declared in planb_amd64.go, in the types that are Go's own.
	TEXT("searchAVX512", NOSPLIT, "func(dst []uint32, src [][16]byte, nodes [][8]uint64, levels, values []uint32) (all uint32)")
	Comment("The first eight bytes of an address, reversed: a number.")
	swap := GLOBL("firstHalf", RODATA|NOPTR)
	for i := range 64 {
		DATA(i, U8(7-i%8+i/16*0))
	}
	reversed := ZMM()
	VMOVDQU64(swap, reversed)
	all := GP32()
	XORL(all, all)
	done := GP64()
	XORQ(done, done)

	Label("group")
	x := make([]reg.VecVirtual, lanes)
	src := Load(Param("src").Base(), GP64())
	SHLQ(U8(4), done)
	for i := range x {
		x[i] = ZMM()
		VPBROADCASTQ(Mem{Base: src, Index: done, Scale: 1, Disp: 16 * i}, x[i])
		VPSHUFB(reversed, x[i], x[i])
	}
	SHRQ(U8(4), done)

	at := make([]reg.GPVirtual, lanes)
	for i := range at {
		at[i] = GP64()
		XORQ(at[i], at[i])
	}
	level := Load(Param("levels").Base(), GP64())
	left := Load(Param("levels").Len(), GP64())
	nodes := GP64()
	step := func(i int) reg.GPVirtual {
		less := K()
		VPCMPUQ(U8(6), Mem{Base: nodes, Index: at[i], Scale: 1}, x[i], less)
		n := GP64()
		KMOVB(less, n.As32())
		POPCNTL(n.As32(), n.As32())
		return n
	}
	base := func() {
		MOVL(Mem{Base: level}, nodes.As32())
		SHLQ(U8(6), nodes)
		nodesArg, _ := Param("nodes").Base().Resolve()
		ADDQ(nodesArg.Addr, nodes)
	}
	DECQ(left)
	JZ(LabelRef("leaves"))
	Label("inner")
	base()
	for i := range at {
		n := step(i)
		LEAQ(Mem{Base: at[i], Index: at[i], Scale: 8}, at[i])
		SHLQ(U8(6), n)
		ADDQ(n, at[i])
	}
	ADDQ(U8(4), level)
	DECQ(left)
	JNZ(LabelRef("inner"))

	Label("leaves")
	base()
	for i := range at {
		n := step(i)
		SHRQ(U8(3), at[i])
		ADDQ(n, at[i])
	}
	values := Load(Param("values").Base(), GP64())
	dst := Load(Param("dst").Base(), GP64())
	for i := range at {
		MOVL(Mem{Base: values, Index: at[i], Scale: 4}, at[i].As32())
		ORL(at[i].As32(), all)
		MOVL(at[i].As32(), Mem{Base: dst, Index: done, Scale: 4, Disp: 4 * i})
	}
	ADDQ(U8(lanes), done)
	total, _ := Param("src").Len().Resolve()
	CMPQ(done, total.Addr)
	JLT(LabelRef("group"))
	Store(all, ReturnIndex(0))
	VZEROUPPER()
	RET()
	Generate()
}
