package gpulookup

import (
	_ "embed"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/lookup/device"
)

//go:generate go test -run ^TestCHeader$ -update .
//go:generate ../../scripts/ptx.sh bench.cu
//go:generate ../../scripts/ptx.sh noncoherent.cu

//go:embed bench.ptx
var ptx []byte

//go:embed noncoherent.ptx
var ptxNoncoherent []byte

// Launch shapes. layout.h, generated from them, is for bench.cu.
const (
	threads         = device.Threads
	each            = device.Each
	residentThreads = 1024
	stop            = 1<<32 - 1
	lineBytes       = 128
)

// smallChunk is the number of addresses in a small chunk. It is a multiple of the addresses that a
// block of any kernel processes per step; the size of a workload is a multiple of it.
const smallChunk = 16 << 10

// largeChunk is the number of addresses in a large chunk.
const largeChunk = 4 << 20

// residentParams are the parameters of resident4 and resident6.
type residentParams struct {
	Columns         device.Columns
	Size            uint32 // of a chunk
	Doorbells, Done cuda.DevicePtr
}

// gatherParams are the parameters of gather.
type gatherParams struct {
	Image  cuda.DevicePtr
	Times  uint32
	Unused cuda.DevicePtr
}

// readParams are the parameters of read_words.
type readParams struct {
	Words  cuda.DevicePtr
	N      uint32
	Unused cuda.DevicePtr
}
