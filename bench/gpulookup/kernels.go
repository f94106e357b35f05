package gpulookup

import (
	_ "embed"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

//go:generate ../../scripts/ptx.sh bench.cu
//go:generate ../../scripts/ptx.sh at_rest.cu

//go:embed bench.ptx
var ptx []byte

//go:embed at_rest.ptx
var ptxAtRest []byte

// The launched kernels' numbers, and what bench.cu defines; a test compares.
const (
	threads         = device.Threads
	each            = device.Each
	residentThreads = 1024
	stop            = 1<<32 - 1
	lineBytes       = 128
)

// smallChunk is the number of addresses of a small chunk. It is a multiple of what
// a block of any kernel does at a time, and so is the number of addresses in a workload.
const smallChunk = 16 << 10

// largeChunk is the number of addresses of a large chunk.
const largeChunk = 4 << 20

// residentParams are those of resident4 and resident6.
type residentParams struct {
	Columns         device.Columns
	Size            uint32 // of a chunk
	Doorbells, Done cuda.DevicePtr
}

// gatherParams are gather's.
type gatherParams struct {
	Image  cuda.DevicePtr
	Times  uint32
	Unused cuda.DevicePtr
}

// readParams are those of read_words.
type readParams struct {
	Words  cuda.DevicePtr
	N      uint32
	Unused cuda.DevicePtr
}
