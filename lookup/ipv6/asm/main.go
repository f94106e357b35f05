// Command asm generates the vector kernels of package ipv6. It is run by go generate.
//
// A kernel looks up four vectors of addresses level by level: the words of one level
// depend only on those of the level above, so all cache misses of a level overlap. The
// remaining addresses use single vectors.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"

	"github.com/warproute/warproute/lookup/trie"
	"github.com/warproute/warproute/lookup/trie/asm"
)

const (
	addrBytes = 16
	rootBytes = trie.RootBits / 8
	together  = 4 // vectors per walk
)

func main() {
	kernels512()
	kernel256()
	Generate()
}

// swap defines the VPSHUFB control that reverses the bytes of each word.
func swap(name string, lanes int) Mem {
	values := make([]uint32, lanes)
	for i := range values {
		values[i] = 0x00010203 + 0x04040404*uint32(i%4)
	}
	return asm.Dwords(name, values...)
}

// registers allocates n registers.
func registers[R any](n int, allocate func() R) []R {
	all := make([]R, n)
	for i := range all {
		all[i] = allocate()
	}
	return all
}

// walker generates the level-by-level walk of several vectors. The methods of step depend
// on the instruction set.
type walker struct {
	name    string // label prefix
	kernel  asm.Kernel
	vectors int
	step    interface {
		// leaveIfRoutes jumps to a label if no word is a reference.
		leaveIfRoutes(label string)
		// index returns address byte byteOf, counted from 0, of each lane of vector v.
		index(v, byteOf int) reg.VecVirtual
		// indexAt returns the byte 3 bytes after addr of each lane of vector v, from memory.
		indexAt(v int, addr reg.Register) reg.VecVirtual
		// descend replaces each reference in vector v by the word at index in its node.
		descend(v int, index reg.VecVirtual)
	}
}

// walk generates the levels below the word that resolves from bytes of the address.
func (w walker) walk(from int) {
	routes, level := w.name+"_routes", w.name+"_level"
	for at := from; at < 8; at++ {
		if at != 5 { // many routes are /40 to /48: one check for both levels
			w.step.leaveIfRoutes(routes)
		}
		for v := range w.vectors {
			w.step.descend(v, w.step.index(v, at))
		}
	}
	// Few routes are longer than /64: load their address bytes from memory.
	addr, end := GP64(), GP64()
	LEAQ(Mem{Base: w.kernel.Src, Disp: 8 - 3}, addr)
	LEAQ(Mem{Base: w.kernel.Src, Disp: 16 - 3}, end)
	Label(level)
	w.step.leaveIfRoutes(routes)
	for v := range w.vectors {
		w.step.descend(v, w.step.indexAt(v, addr))
	}
	INCQ(addr)
	CMPQ(addr, end)
	JNE(LabelRef(level))
	Label(routes)
}
