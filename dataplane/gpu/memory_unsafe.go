package gpu

import (
	"sync/atomic"
	"unsafe"

	"github.com/warproute/warproute/cuda"
)

// tablePointers are the device addresses of the tables: struct tables of tables.h. IPv4 and IPv6
// point to the addresses of the images.
type tablePointers struct {
	IPv4, IPv6, NextHops, Groups, Adjacencies, Ports, Ingress, Generation, PartialChecksums cuda.DevicePtr
	Seed                                                                                    uint32
	Hot                                                                                     cuda.DevicePtr // set by each warp
}

func bytesOf[T uint32 | uint64](words []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*int(unsafe.Sizeof(words[0])))
}

const patchBytes = int(unsafe.Sizeof(patch{}))

// appliedPatches returns the device's count of applied patches, at the beginning of memory.
func appliedPatches(memory []byte) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(&memory[0])))
}

// patchesIn returns memory as patches.
func patchesIn(memory []byte) []patch {
	return unsafe.Slice((*patch)(unsafe.Pointer(&memory[0])), len(memory)/patchBytes)
}

const workerMemoryBytes = int(unsafe.Sizeof(workerMemory{}))

var _ = [1]struct{}{}[unsafe.Sizeof(saSeqs{})-saSeqsBytes]
