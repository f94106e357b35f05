package lookup6

import (
	"golang.org/x/sys/cpu"

	"github.com/warproute/warproute/lookup"
)

//go:generate go run ./asm -out planb_amd64.s

// PlanBVector is PlanB with one AVX-512 comparison for the eight keys of a node.
type PlanBVector struct{ PlanB }

// NewPlanBVector builds a PlanBVector. Its lookups need a CPU with AVX-512 F, BW and DQ.
func NewPlanBVector(seq Routes) *PlanBVector { return &PlanBVector{*NewPlanB(seq)} }

// LookupBatch implements Table.
func (t *PlanBVector) LookupBatch(dst []lookup.NextHop, src [][16]byte) {
	dst = dst[:len(src)]
	whole := len(src) &^ (kernelLanes - 1)
	if whole > 0 && searchAVX512(dst[:whole], src[:whole], t.upper.nodes, t.upper.levels, t.upper.values)&deeper != 0 {
		t.finish(dst[:whole], src[:whole])
	}
	t.PlanB.LookupBatch(dst[whole:], src[whole:])
}

// kernelLanes is how many addresses the kernel walks side by side.
const kernelLanes = 16

// searchAVX512 writes the value of each address's interval to dst, and returns
// all of these or-ed together. len(dst) is len(src), a multiple of kernelLanes.
//
//go:noescape
func searchAVX512(dst []lookup.NextHop, src [][16]byte, nodes [][keys]uint64, levels, values []uint32) (all uint32)

// vectorDesigns are the designs that need more than Go.
func vectorDesigns() []Design {
	if !cpu.X86.HasAVX512F || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512DQ || !cpu.X86.HasPOPCNT {
		return nil
	}
	return []Design{{"planb-avx512", planbPaper, func(r Routes) Table { return NewPlanBVector(r) }}}
}
