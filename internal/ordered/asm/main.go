// Command asm generates the stores of package ordered, for go generate.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

func main() {
	function("add", "add adds n to the word at.", "func(at *uint64, n uint64)")
	at, n := Load(Param("at"), GP64()), Load(Param("n"), GP64())
	ADDQ(n, Mem{Base: at})
	RET()

	function("addPair", "addPair adds n to the word at first and m to the word at second.", "func(first, second *uint64, n, m uint64)")
	first, second := Load(Param("first"), GP64()), Load(Param("second"), GP64())
	n, m := Load(Param("n"), GP64()), Load(Param("m"), GP64())
	ADDQ(n, Mem{Base: first})
	ADDQ(m, Mem{Base: second})
	RET()

	function("addToEach", "addToEach adds 1 to the first word of each of n records, and a word of m to the second one.",
		"func(records **uint64, n int, m *uint64)")
	records := Load(Param("records"), GP64())
	n, m = Load(Param("n"), GP64()), Load(Param("m"), GP64())
	record, value := GP64(), GP64()
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	MOVQ(Mem{Base: records}, record)
	MOVQ(Mem{Base: m}, value)
	INCQ(Mem{Base: record})
	ADDQ(value, Mem{Base: record, Disp: 8})
	ADDQ(Imm(8), records)
	ADDQ(Imm(8), m)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("done")
	RET()

	function("replaceBelow", "replaceBelow replaces words below limit and returns the index of the first that is not.",
		"func(at *uint32, n int, limit, word uint32) int")
	at, n = Load(Param("at"), GP64()), Load(Param("n"), GP64())
	limit, word := Load(Param("limit"), GP32()), Load(Param("word"), GP32())
	i := GP64()
	XORQ(i, i)
	Label("next")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	CMPL(Mem{Base: at, Index: i, Scale: 4}, limit)
	JAE(LabelRef("done"))
	MOVL(word, Mem{Base: at, Index: i, Scale: 4})
	INCQ(i)
	JMP(LabelRef("next"))
	Label("done")
	Store(i, ReturnIndex(0))
	RET()

	function("storeEach", "storeEach stores n words, step bytes apart, at addresses that are stride bytes apart.",
		"func(at *uint64, stride int, words *uint64, step int, n int)")
	at = Load(Param("at"), GP64())
	stride, words := Load(Param("stride"), GP64()), Load(Param("words"), GP64())
	step, n := Load(Param("step"), GP64()), Load(Param("n"), GP64())
	Label("next")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	MOVQ(Mem{Base: words}, value)
	MOVQ(value, Mem{Base: at})
	ADDQ(step, words)
	ADDQ(stride, at)
	DECQ(n)
	JMP(LabelRef("next"))
	Label("done")
	RET()
	Generate()
}

func function(name, doc, signature string) {
	TEXT(name, NOSPLIT, signature)
	Doc(doc)
	Pragma("noescape")
}
