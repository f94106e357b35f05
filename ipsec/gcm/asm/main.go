// Command asm generates the vector code of package gcm; go generate runs it.
//
// A register holds four blocks of 16 bytes, and 16 blocks are processed together: their counters are
// encrypted and xored with the text, and the ciphertext is multiplied by 16 powers of the hash key, so
// that 16 steps of GHASH need one reduction. The encryption of the next 16 blocks does not depend on
// it, so the processor overlaps both.
package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/ipsec/gcm/layout"
)

// mode is the operation of a function.
type mode int

const (
	counter mode = iota // xor the text with the key stream
	seal                // the same, then hash it
	open                // hash the text, then xor it with the key stream
)

const (
	block     = 16 // bytes
	registers = 4  // of four blocks each
	group     = registers * 4 * block
)

var reverse, steps, lanes, polynomial Mem

func main() {
	constants()
	crypt("counter512", counter, `counter512 xors n bytes with the key stream that begins at the counter block first,
two words in memory order.`)
	crypt("seal512", seal, `seal512 encrypts n bytes and writes the tag. first is the counter block of the tag;
those of the text follow. aad is the additional authenticated data, a block padded with
zeros, and aadBits its length. Blocks are passed as words: a load of a block in memory
would wait for the stores of its words.`)
	crypt("open512", open, `open512 decrypts n bytes and writes the tag that authentic ones have; else as seal512.`)
	Generate()
}

func constants() {
	reverse = GLOBL("reverse", RODATA|NOPTR) // reverses the bytes of a block
	DATA(0, U64(0x08090a0b0c0d0e0f))
	DATA(8, U64(0x0001020304050607))
	steps = GLOBL("steps", RODATA|NOPTR) // difference of the counters of two registers
	DATA(0, U64(4))
	DATA(8, U64(0))
	lanes = GLOBL("lanes", RODATA|NOPTR) // differences of the counters of a register
	for lane := range 4 {
		DATA(16*lane, U64(uint64(lane)))
		DATA(16*lane+8, U64(0))
	}
	polynomial = GLOBL("polynomial", RODATA|NOPTR) // x¹²⁸ + x¹²⁷ + x¹²⁶ + x¹²¹ + 1: GHASH's, reversed
	DATA(0, U64(1))
	DATA(8, U64(0xc200000000000000))
}

// function is the state of one of the functions, in registers.
type function struct {
	mode
	key, last, rounds          reg.GPVirtual // last: the last round's key
	dst, src, n                reg.GPVirtual
	powers                     reg.GPVirtual // first power for the group
	swap, next, step, poly     reg.VecVirtual
	sum                        reg.VecVirtual // GHASH of the blocks so far, reversed; in the lowest lane
	text                       [registers]reg.VecVirtual
	low, middle, high, scratch reg.VecVirtual
	masks                      [registers]reg.OpmaskVirtual
	given                      [registers]reg.VecVirtual // open: ciphertext
}

func crypt(name string, m mode, doc string) {
	signature := "func(key *uint32, dst, src *byte, n int, firstLow, firstHigh uint64"
	if m != counter {
		signature += ", aadLow, aadHigh, aadBits uint64, tag *[16]byte"
	}
	TEXT(name, NOSPLIT, signature+")")
	Doc(strings.Split(doc, "\n")...)
	Pragma("noescape")
	f := &function{mode: m}
	f.begin()

	Label("group")
	CMPQ(f.n, U32(group))
	JLT(LabelRef("rest"))
	f.group(false)
	ADDQ(U32(group), f.src)
	ADDQ(U32(group), f.dst)
	SUBQ(U32(group), f.n)
	JMP(LabelRef("group"))

	Label("rest")
	TESTQ(f.n, f.n)
	JZ(LabelRef("end"))
	f.rest()
	f.group(true)

	Label("end")
	f.end()
	VZEROUPPER()
	RET()
}

// begin loads the arguments and adds the additional authenticated data to the sum.
func (f *function) begin() {
	f.key, f.dst, f.src, f.n = GP64(), GP64(), GP64(), GP64()
	Load(Param("key"), f.key)
	Load(Param("dst"), f.dst)
	Load(Param("src"), f.src)
	Load(Param("n"), f.n)
	f.rounds, f.last = GP64(), GP64()
	MOVLQZX(Mem{Base: f.key, Disp: layout.Rounds}, f.rounds)
	MOVQ(f.rounds, f.last)
	SHLQ(U8(4), f.last)
	LEAQ(Mem{Base: f.key, Index: f.last, Scale: 1, Disp: layout.RoundKeys}, f.last)

	f.swap, f.next, f.step = ZMM(), ZMM(), ZMM()
	VBROADCASTI32X4(reverse, f.swap)
	VBROADCASTI32X4(steps, f.step)
	loadBlock("first", f.next.AsX())
	VSHUFI32X4(U8(0), f.next, f.next, f.next)
	VPSHUFB(f.swap, f.next, f.next)
	VPADDD(lanes, f.next, f.next)
	for i := range f.text {
		f.text[i] = ZMM()
	}
	if f.mode == counter {
		return
	}

	one := ZMM() // the first counter is the tag's
	VPSRLD(U8(2), f.step, one)
	VPADDD(one, f.next, f.next)
	f.powers, f.poly, f.sum = GP64(), ZMM(), ZMM()
	f.low, f.middle, f.high, f.scratch = ZMM(), ZMM(), ZMM(), ZMM()
	if f.mode == open {
		for i := range f.given {
			f.given[i] = ZMM()
		}
	}
	VBROADCASTI32X4(polynomial, f.poly)
	LEAQ(Mem{Base: f.key, Disp: layout.Powers}, f.powers)
	loadBlock("aad", f.sum.AsX())
	VPSHUFB(f.swap.AsX(), f.sum.AsX(), f.sum.AsX())
	f.multiplySum()
}

// loadBlock loads a block of two words.
func loadBlock(name string, to reg.Register) {
	VMOVQ(Load(Param(name+"Low"), GP64()), to)
	VPINSRQ(U8(1), Load(Param(name+"High"), GP64()), to, to)
}

// multiplySum multiplies the sum by H.
func (f *function) multiplySum() {
	h := f.text[0]
	VMOVDQU(Mem{Base: f.key, Disp: layout.Powers + (layout.NumPowers-1)*block}, h.AsX())
	f.multiply(h, f.sum, true)
	f.reduce()
	VMOVDQA(f.high.AsX(), f.sum.AsX()) // other lanes are zero
}

// multiply adds the three parts of a 256-bit product in every lane.
func (f *function) multiply(power, by reg.VecVirtual, isFirst bool) {
	if isFirst {
		VPCLMULQDQ(U8(0x00), power, by, f.low)
		VPCLMULQDQ(U8(0x11), power, by, f.high)
		VPCLMULQDQ(U8(0x01), power, by, f.middle)
		VPCLMULQDQ(U8(0x10), power, by, f.scratch)
		VPXORQ(f.scratch, f.middle, f.middle)
		return
	}
	other := ZMM()
	VPCLMULQDQ(U8(0x00), power, by, f.scratch)
	VPXORQ(f.scratch, f.low, f.low)
	VPCLMULQDQ(U8(0x11), power, by, f.scratch)
	VPXORQ(f.scratch, f.high, f.high)
	VPCLMULQDQ(U8(0x01), power, by, f.scratch)
	VPCLMULQDQ(U8(0x10), power, by, other)
	VPTERNLOGD(U8(xor3), f.scratch, other, f.middle)
}

// xor3 is the truth table of a XOR b XOR c for VPTERNLOGD.
const xor3 = 0x96

// reduce reduces the parts modulo the polynomial, into high.
func (f *function) reduce() {
	for _, p := range [...][2]reg.VecVirtual{{f.low, f.middle}, {f.middle, f.high}} {
		VPCLMULQDQ(U8(0x01), p[0], f.poly, f.scratch)
		VPSHUFD(U8(0x4e), p[0], p[0])
		VPTERNLOGD(U8(xor3), f.scratch, p[0], p[1])
	}
}

// rest prepares the last n bytes, fewer than a group: the masks of these bytes, and the powers by which
// the last block is multiplied by H.
func (f *function) rest() {
	zero, left, ones, bits := GP64(), GP64(), GP64(), GP64()
	XORQ(zero, zero)
	MOVQ(I32(-1), ones)
	MOVQ(f.n, left)
	for i := range f.masks {
		f.masks[i] = K()
		MOVQ(left, bits)
		TESTQ(left, left)
		CMOVQLT(zero, bits)
		BZHIQ(bits, ones, bits) // from 64 on it clears nothing
		KMOVQ(bits, f.masks[i])
		SUBQ(U8(64), left)
	}
	if f.mode == counter {
		return
	}
	ADDQ(U8(block-1), f.n)
	ANDQ(I32(-block), f.n)
	SUBQ(f.n, f.powers)
	ADDQ(U32(layout.NumPowers*block), f.powers)
}

// group processes 256 bytes, or the masked ones.
func (f *function) group(masked bool) {
	f.stream(masked)
	for i, x := range f.text {
		src, dst := Mem{Base: f.src, Disp: 4 * block * i}, Mem{Base: f.dst, Disp: 4 * block * i}
		given := f.given[i]
		if f.mode != open {
			given = ZMM()
		}
		if masked {
			VMOVDQU8_Z(src, f.masks[i], given)
		} else {
			VMOVDQU64(src, given)
		}
		VPXORQ(given, x, x)
		if masked {
			VMOVDQU8(x, f.masks[i], dst)
		} else {
			VMOVDQU64(x, dst)
		}
		if masked && f.mode == seal {
			VMOVDQU8_Z(x, f.masks[i], x)
		}
	}
	switch f.mode {
	case seal:
		f.hash(f.text)
	case open:
		f.hash(f.given)
	}
}

// stream fills the text registers with key stream: the next counters, encrypted.
func (f *function) stream(masked bool) {
	suffix := map[bool]string{true: "Rest", false: "Group"}[masked]
	for _, x := range f.text {
		VPSHUFB(f.swap, f.next, x)
		VPADDD(f.step, f.next, f.next)
	}
	key := ZMM()
	round := func(i int) {
		VBROADCASTI32X4(Mem{Base: f.key, Disp: layout.RoundKeys + block*i}, key)
		for _, x := range f.text {
			if i == 0 {
				VPXORQ(key, x, x)
			} else {
				VAESENC(key, x, x)
			}
		}
	}
	f.allRounds("last"+suffix, round)
	VBROADCASTI32X4(Mem{Base: f.last}, key)
	for _, x := range f.text {
		VAESENCLAST(key, x, x)
	}
}

// allRounds runs all rounds but the last; AES has 10, 12 or 14.
func (f *function) allRounds(label string, round func(i int)) {
	for i := range 10 {
		round(i)
	}
	for more := 10; more < 14; more += 2 {
		CMPQ(f.rounds, U8(more))
		JEQ(LabelRef(label))
		round(more)
		round(more + 1)
	}
	Label(label)
}

// hash adds 16 blocks to the sum.
func (f *function) hash(blocks [registers]reg.VecVirtual) {
	for i, x := range blocks {
		VPSHUFB(f.swap, x, x)
		if i == 0 {
			VPXORQ(f.sum, x, x)
		}
		power := ZMM()
		VMOVDQU64(Mem{Base: f.powers, Disp: 4 * block * i}, power)
		f.multiply(power, x, i == 0)
	}
	f.reduce()
	// Each lane has the sum of every fourth block.
	VEXTRACTI64X4(U8(1), f.high, f.scratch.AsY())
	VPXOR(f.scratch.AsY(), f.high.AsY(), f.high.AsY())
	VEXTRACTI128(U8(1), f.high.AsY(), f.scratch.AsX())
	VPXOR(f.scratch.AsX(), f.high.AsX(), f.sum.AsX())
}

// end writes the tag.
func (f *function) end() {
	if f.mode == counter {
		return
	}
	n, lengths, tag := Load(Param("n"), GP64()), f.text[1].AsX(), Load(Param("tag"), GP64())
	SHLQ(U8(3), n)
	VMOVQ(n, lengths)
	VPINSRQ(U8(1), Load(Param("aadBits"), GP64()), lengths, lengths)
	VPXOR(lengths, f.sum.AsX(), f.sum.AsX())
	f.multiplySum()
	VPSHUFB(f.swap.AsX(), f.sum.AsX(), f.sum.AsX())
	mask := f.text[1].AsX()
	loadBlock("first", mask)
	f.allRounds("lastTag", func(i int) {
		at := Mem{Base: f.key, Disp: layout.RoundKeys + block*i}
		if i == 0 {
			VPXOR(at, mask, mask)
		} else {
			VAESENC(at, mask, mask)
		}
	})
	VAESENCLAST(Mem{Base: f.last}, mask, mask)
	VPXOR(mask, f.sum.AsX(), f.sum.AsX())
	VMOVDQU(f.sum.AsX(), Mem{Base: tag})
}
