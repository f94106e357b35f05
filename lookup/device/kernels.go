package device

import (
	_ "embed"

	"github.com/warproute/warproute/cuda"
)

//go:generate go test -run ^TestCHeader$ -update .
//go:generate ../../scripts/ptx.sh lookup.cu

//go:embed lookup.ptx
var kernels []byte

// Kernel names by address family.
const (
	Lookup4 = "lookup4"
	Lookup6 = "lookup6"
)

// Launch shape: blocks of Threads threads with Each addresses per thread and step. layout.h,
// generated from it, is for lookup.cu.
const (
	Threads = 256
	Each    = 8
)

// Columns is struct columns of lookup.cu. If Image is 0, kernels do no lookups. Lowers is for IPv6.
type Columns struct {
	Image, Addresses, Lowers, Hops cuda.DevicePtr
}

// Params are the kernel parameters: N addresses, a multiple of Threads*Each, from First on.
type Params struct {
	Columns  Columns
	First, N uint32
}
