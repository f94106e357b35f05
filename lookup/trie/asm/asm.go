// Package asm holds the common parts of the assembly generators of packages ipv4 and ipv6.
package asm

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup"
	"github.com/warproute/warproute/lookup/trie"
)

const (
	// Word is the size of a word of an image and of a next hop, in bytes.
	Word = 4

	// Offsets in an image, in bytes.
	defaultRoute = Word * trie.Default
	generation   = Word * trie.Generation
)

// Kernel is the function in generation. Its registers hold the arguments: after each
// vector of lookups Src and Dst advance, and N decreases.
type Kernel struct {
	Image, Dst, Src, N reg.GPVirtual
	addrBytes          int
}

// Begin starts a function that looks up n addresses of a Go type of size bytes.
func Begin(name, doc, addr string, size int) Kernel {
	TEXT(name, NOSPLIT, "func(image, dst *uint32, src *"+addr+", n int)")
	Doc(doc)
	Pragma("noescape")
	k := NewKernel(size)
	Load(Param("image"), k.Image)
	return k
}

// BeginVRFs starts a function that looks up n addresses of a Go type of size bytes in VRFs by number, and returns
// the register for the numbers.
func BeginVRFs(name, doc, addr string, size int) (Kernel, VRFs) {
	TEXT(name, NOSPLIT, "func(image, dst *uint32, vrfs *uint16, src *"+addr+", n int)")
	Doc(doc)
	Pragma("noescape")
	k := NewKernel(size)
	Load(Param("image"), k.Image)
	return k, VRFs{GP64()}
}

// VRFs is the register for the numbers of VRFs, 16 bits each.
type VRFs struct{ at reg.GPVirtual }

// Load loads the register from the arguments.
func (v VRFs) Load() { Load(Param("vrfs"), v.at) }

// Words512 generates the load of the words at which lookups in n vectors of VRFs start, of up to 16 lanes each, and
// advances behind them. lanes are those of a single vector.
func (v VRFs) Words512(k Kernel, words []reg.VecVirtual, lanes reg.OpmaskVirtual) {
	for i, w := range words {
		index, some := ZMM(), K()
		VPMOVZXWD_Z(Mem{Base: v.at, Disp: i * 32}, lanes, index)
		VPXORD(w, w, w)
		KMOVW(lanes, some)
		VPGATHERDD(Mem{Base: k.Image, Index: index, Scale: Word, Disp: Word * trie.VRFs}, some, w)
	}
	ADDQ(I32(len(words)*32), v.at)
}

// BeginTable starts lookupBatch, the lookup of n addresses of a Go type of size bytes in a Table. It
// jumps to the label "slow" for a table without an address in trie.direct.
//
// The assembly loads the image itself. It has no safepoint, so the garbage collector cannot unmap the
// image during a batch.
func BeginTable(addr string, size int) Kernel {
	TEXT("lookupBatch", NOSPLIT, "func(table *byte, dst *uint32, src *"+addr+", n int)")
	Doc("lookupBatch looks up n addresses in a Table.")
	Pragma("noescape")
	k := NewKernel(size)
	Load(Param("table"), k.Image)
	MOVQ(Mem{Base: k.Image}, k.Image) // trie.direct.first
	k.LoadBatch()
	TESTQ(k.Image, k.Image)
	JZ(LabelRef("slow"))
	return k
}

// CheckLength jumps to the label "slow" unless N is 1 to trie.MaxBatch.
func (k Kernel) CheckLength() {
	last := GP64()
	LEAQ(Mem{Base: k.N, Disp: -1}, last)
	CMPQ(last, U32(trie.MaxBatch))
	JAE(LabelRef("slow"))
}

// NewKernel returns the registers of a function for addresses of size bytes.
func NewKernel(size int) Kernel {
	return Kernel{Image: GP64(), Dst: GP64(), Src: GP64(), N: GP64(), addrBytes: size}
}

// LoadBatch loads Dst, Src and N from the arguments.
func (k Kernel) LoadBatch() {
	Load(Param("dst"), k.Dst)
	Load(Param("src"), k.Src)
	Load(Param("n"), k.N)
}

// UntilStable generates the reader side of the seqlock: body, repeated if the generation
// changed during it.
func (k Kernel) UntilStable(body func()) {
	before := GP32()
	Label("again")
	k.LoadBatch()
	MOVL(k.Generation(), before)
	body()
	CMPL(k.Generation(), before)
	JNE(LabelRef("again"))
}

// While generates a loop over body, which looks up lanes addresses, while N is at least lanes.
func (k Kernel) While(label string, lanes int, body func()) {
	SUBQ(I32(lanes), k.N)
	JLT(LabelRef(label + "_end"))
	Label(label)
	body()
	ADDQ(I32(lanes*k.addrBytes), k.Src)
	ADDQ(I32(lanes*Word), k.Dst)
	SUBQ(I32(lanes), k.N)
	JGE(LabelRef(label))
	Label(label + "_end")
	ADDQ(I32(lanes), k.N)
}

// Rest generates body for the remaining addresses, skipped if N is 0.
func (k Kernel) Rest(body func()) {
	TESTQ(k.N, k.N)
	JZ(LabelRef("rest_end"))
	body()
	Label("rest_end")
}

// End ends the function.
func End() {
	VZEROUPPER()
	RET()
}

// Slow ends a function of BeginTable: it passes on to Go what the assembly does not look up.
func Slow() {
	Label("slow")
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{LabelRef("·lookupSlow(SB)")}, IsTerminal: true})
}

// Generation returns the operand for the word of the seqlock.
func (k Kernel) Generation() Mem { return Mem{Base: k.Image, Disp: generation} }

// Default returns the operand for the default route's word.
func (k Kernel) Default() Mem { return Mem{Base: k.Image, Disp: defaultRoute} }

// Indexed returns the operand for the word of the image at an index.
func (k Kernel) Indexed(index reg.Register) Mem {
	return Mem{Base: k.Image, Index: index, Scale: Word}
}

// Hops512 converts words of the image to next hops, in vectors of 16 lanes.
type Hops512 struct{ mask, fallback reg.VecVirtual }

// NewHops512 loads the next-hop mask and the default route.
func NewHops512(k Kernel) Hops512 {
	h := Hops512{Broadcast512(uint32(lookup.MaxNextHopID)), ZMM()}
	VPBROADCASTD(k.Default(), h.fallback)
	VPANDD(h.mask, h.fallback, h.fallback)
	return h
}

// Convert replaces words by their next hops.
func (h Hops512) Convert(words reg.VecVirtual) {
	none := K()
	VPTESTNMD(h.mask, words, none)
	VPANDD(h.mask, words, words)
	VMOVDQA32(h.fallback, none, words)
}

// Hops256 converts words of the image to next hops, in vectors of 8 lanes.
type Hops256 struct{ mask, fallback, zero reg.VecVirtual }

// NewHops256 loads the next-hop mask and the default route.
func NewHops256(k Kernel) Hops256 {
	h := Hops256{YMM(), YMM(), YMM()}
	VPCMPEQD(h.mask, h.mask, h.mask)
	VPSRLD(U8(32-trie.NextHopBits), h.mask, h.mask)
	VPBROADCASTD(k.Default(), h.fallback)
	VPAND(h.mask, h.fallback, h.fallback)
	VPXOR(h.zero, h.zero, h.zero)
	return h
}

// Convert replaces words by their next hops.
func (h Hops256) Convert(words reg.VecVirtual) {
	none := YMM()
	VPAND(h.mask, words, words)
	VPCMPEQD(h.zero, words, none)
	VPAND(h.fallback, none, none)
	VPOR(none, words, words)
}

// Broadcast512 returns a vector with a value in all 16 lanes.
func Broadcast512(value uint32) reg.VecVirtual {
	v, z := GP32(), ZMM()
	MOVL(U32(value), v)
	VPBROADCASTD(v, z)
	return z
}

// LowBits returns a mask with the lowest n bits set; n is less than 32.
func LowBits(n reg.GPVirtual) reg.OpmaskVirtual {
	bits, mask := GP32(), K()
	MOVL(I32(-1), bits)
	BZHIL(n.As32(), bits, bits)
	KMOVW(bits, mask)
	return mask
}

// Dwords defines a constant array of 32-bit values.
func Dwords(name string, values ...uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, v := range values {
		DATA(Word*i, U32(v))
	}
	return m
}
