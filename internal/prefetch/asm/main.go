// Command asm generates the loops of package prefetch, for go generate.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func main() {
	loop("read", "read prefetches the line at an offset from each of n pointers, for reading.", prefetcht0)
	loop("write", "write prefetches them for writing. Processors without PREFETCHW do nothing.", prefetchw)
	loopAt("readAt", "readAt prefetches the lines at n offsets from base, for reading. apart is the stride of the offsets in bytes.", prefetcht0)
	loopAt("writeAt", "writeAt prefetches them for writing.", prefetchw)
	Generate()
}

var line = reg.RAX

func prefetcht0() { PREFETCHT0(Mem{Base: line}) }

// prefetchw emits PREFETCHW (AX), which Go's assembler lacks.
func prefetchw() {
	for _, b := range []byte{0x0f, 0x0d, 1 << 3} {
		Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{Imm(uint64(b))}, Inputs: []Op{line}})
	}
}

// loop generates a function that prefetches a line for each pointer that is not nil.
func loop(name, doc string, prefetch func()) {
	TEXT(name, NOSPLIT, "func(pointers **byte, n int, offset uintptr)")
	Doc(doc)
	Pragma("noescape")
	pointers := Load(Param("pointers"), GP64())
	n := Load(Param("n"), GP64())
	offset := Load(Param("offset"), GP64())
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	MOVQ(Mem{Base: pointers}, line)
	TESTQ(line, line)
	JZ(LabelRef("none"))
	ADDQ(offset, line)
	prefetch()
	Label("none")
	ADDQ(Imm(8), pointers)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("done")
	RET()
}

// loopAt generates a function that prefetches a line at each offset.
func loopAt(name, doc string, prefetch func()) {
	TEXT(name, NOSPLIT, "func(base *byte, offsets *uint32, n int, apart uintptr)")
	Doc(doc)
	Pragma("noescape")
	base := Load(Param("base"), GP64())
	offsets := Load(Param("offsets"), GP64())
	n := Load(Param("n"), GP64())
	apart := Load(Param("apart"), GP64())
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	MOVL(Mem{Base: offsets}, line.As32())
	ADDQ(base, line)
	prefetch()
	ADDQ(apart, offsets)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("done")
	RET()
}
