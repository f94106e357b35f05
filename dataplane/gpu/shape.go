package gpu

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/ipsec/device"
)

// Shape is the launch shape of a resident kernel. Sizes are in bytes.
type Shape struct {
	Warps                   int // of a block
	Shared                  int // dynamic shared memory of a block
	Staging                 int // staging buffer of a warp, a multiple of 16; 0: none
	BlocksPerMultiprocessor int
	WithoutCBC              bool // a gateway: the block has no tables to decrypt AES-CBC, which the CPU engine does
}

// Threads returns the threads of a block.
func (s Shape) Threads() int { return s.Warps * warpSize }

// String returns the shape in words.
func (s Shape) String() string {
	blocks := "blocks"
	if s.BlocksPerMultiprocessor == 1 {
		blocks = "block"
	}
	text := fmt.Sprintf("%d %s per multiprocessor, of %d warps and %d bytes of shared memory", s.BlocksPerMultiprocessor, blocks, s.Warps, s.Shared)
	if s.Staging > 0 {
		text += fmt.Sprintf(" (staging buffers: %d bytes per warp)", s.Staging)
	}
	if s.WithoutCBC {
		text += "; it does not decrypt AES-CBC: the CPU engine does"
	}
	return text
}

// limits are a device's resources for blocks. Sizes are in bytes.
type limits struct {
	shared               int // of a block
	sharedReserved       int // of a block, for the driver
	multiprocessorShared int
	registers            int // of a multiprocessor
	threads              int // of a multiprocessor
	blocks               int // of a multiprocessor
}

// readLimits reads the limits of a device. sharedLimit lowers the shared memory to that of a smaller
// device; 0: not.
func readLimits(d *cuda.Device, sharedLimit int) (l limits, err error) {
	for _, v := range []struct {
		attribute cuda.Attribute
		to        *int
	}{
		{cuda.MaxSharedPerBlockOptin, &l.shared}, {cuda.ReservedSharedPerBlock, &l.sharedReserved},
		{cuda.SharedPerMultiprocessor, &l.multiprocessorShared}, {cuda.RegistersPerMultiprocessor, &l.registers},
		{cuda.MaxThreadsPerMultiprocessor, &l.threads}, {cuda.MaxBlocksPerMultiprocessor, &l.blocks},
	} {
		if *v.to, err = d.Attribute(v.attribute); err != nil {
			return l, err
		}
	}
	if sharedLimit > 0 && sharedLimit < l.shared {
		l.shared = sharedLimit
		l.multiprocessorShared = min(l.multiprocessorShared, l.shared+l.sharedReserved)
	}
	return l, nil
}

const (
	warpSize      = 32
	registersUnit = 256  // registers are allocated to a warp in multiples of this
	stagingUnit   = 16   // bytes: a segment
	longestPacket = 2048 // bytes: a packet in a larger frame is the CPU's (package esp)
)

// kernelNeeds are the resources of a kernel's block. Sizes are in bytes.
type kernelNeeds struct {
	name         string
	tables       int // shared memory of the block, without warps
	cbcTables    int // part of tables that only AES-CBC decryption needs; 0: none
	scratch      int // shared memory of a warp, without its staging buffer
	staging      int // smallest staging buffer that is worth a warp; 0: none
	leastStaging int // smallest staging buffer that works
	warps        int // most warps of a block
	registers    int // of a thread; 0: unknown, until the driver has compiled the kernel
}

// The kernels' needs, as their code declares them, and the numbers of warps that an H200 is fastest with (a gateway: with IMIX and 1,408 bytes).
// A gateway's warp needs room for two packets of any length: with one at a time, HMAC and CBC encryption use a lane or four of
// 32. With the limits of an L4, there is room for 2 warps with the tables to decrypt AES-CBC, and for 6 without.
var (
	forwardNeeds = kernelNeeds{name: "forwarding", tables: forwardHeader, scratch: forwardScratch, warps: threads / warpSize}
	gatewayNeeds = kernelNeeds{
		name: "IPsec", tables: aesBytes + gatewayHeader, cbcTables: aesBytes - aesEncryptBytes, scratch: gatewayScratch, warps: gatewayThreads / warpSize,
		staging: stagingOf(2, longestPacket), leastStaging: minStagingBytes,
	}
)

// stagingOf returns the size of a staging buffer for packets of some bytes each, and a key for each: as
// place_packets of staging.h, in the worst case. A byte per segment names its owner.
func stagingOf(packets, bytes int) int {
	const segmentWords, keyWords, sector = 4, device.SegmentsBytes / 4, 32
	words := 1 + packets*((bytes+sector-1)/sector*sector/4+1+keyWords)
	words = (16*words + 14) / 15 // a sixteenth of the words has the owners
	return (4*words + stagingUnit - 1) / stagingUnit * stagingUnit
}

// errShared is wrapped by the error for a device with too little shared memory.
var errShared = errors.New("too little shared memory")

// shape returns the launch shape on a device: as many warps per block as the kernel uses, or fewer if
// shared memory limits them. The warps of a block share the remaining memory as staging buffers. The kernel does without the
// tables to decrypt AES-CBC if fewer than half of its warps fit beside them, and more fit without.
func (k kernelNeeds) shape(l limits) (Shape, error) {
	s, err := k.shapeWithTables(l)
	if k.cbcTables == 0 || err == nil && 2*s.Warps >= k.warps {
		return s, err
	}
	k.tables -= k.cbcTables
	without, withoutErr := k.shapeWithTables(l)
	if err == nil && without.Warps <= s.Warps {
		return s, nil
	}
	without.WithoutCBC = withoutErr == nil
	return without, withoutErr
}

// shapeWithTables returns the launch shape with k.tables bytes of tables.
func (k kernelNeeds) shapeWithTables(l limits) (Shape, error) {
	for warps := k.warps; warps > 0; warps-- {
		least := k.staging
		if warps == 1 {
			least = k.leastStaging
		}
		if s, ok := k.fit(l, warps, least); ok {
			return s, nil
		}
	}
	return Shape{}, fmt.Errorf("the %s kernel needs %d bytes of shared memory per block, the GPU has %d: %w",
		k.name, k.tables+k.scratch+k.leastStaging, l.shared, errShared)
}

// withWarps returns the needs of a kernel whose blocks have a number of warps, up to the kernel's, whether or
// not smaller staging buffers are worth it. 0: no change.
func (k kernelNeeds) withWarps(warps int) kernelNeeds {
	if warps > 0 {
		k.warps, k.staging = min(warps, k.warps), k.leastStaging
	}
	return k
}

// fit returns the shape of a block with a number of warps, each with a staging buffer of at least some
// bytes, if it fits.
func (k kernelNeeds) fit(l limits, warps, staging int) (s Shape, ok bool) {
	s = Shape{Warps: warps, Shared: k.tables + warps*k.scratch}
	if k.leastStaging > 0 {
		s.Staging = max(0, l.shared-s.Shared) / warps &^ (stagingUnit - 1)
		s.Shared += warps * s.Staging
	}
	s.BlocksPerMultiprocessor = min(l.multiprocessorShared/(s.Shared+l.sharedReserved), l.threads/s.Threads(), l.blocks)
	if k.registers > 0 {
		perWarp := (k.registers*warpSize + registersUnit - 1) / registersUnit * registersUnit
		s.BlocksPerMultiprocessor = min(s.BlocksPerMultiprocessor, l.registers/(perWarp*warps))
	}
	return s, s.Staging >= staging && s.Shared <= l.shared && s.BlocksPerMultiprocessor > 0
}
