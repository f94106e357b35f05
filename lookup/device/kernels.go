package device

import (
	_ "embed"

	"github.com/warproute/warproute/cuda"
)

//go:generate ../../scripts/ptx.sh lookup.cu

//go:embed lookup.ptx
var kernels []byte

// The kernels, by family.
const (
	Lookup4 = "lookup4"
	Lookup6 = "lookup6"
)

// What lookup.cu defines; a test compares. Kernels are launched with blocks of Threads
// threads, for a multiple of Threads*Each addresses.
const (
	Threads = 256
	Each    = 8
)

// Columns is struct columns. Without an image nothing is looked up. Lowers are IPv6's.
type Columns struct {
	Image, Addresses, Lowers, Hops cuda.DevicePtr
}

// Params are those of the kernels: N addresses from First on.
type Params struct {
	Columns  Columns
	First, N uint32
}
