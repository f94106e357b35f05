package gpu

import (
	"cmp"
	"time"

	"github.com/warproute/warproute/ipsec/gateway"
)

// Options describe how a device is used. Zero values mean the defaults.
type Options struct {
	Timeout          time.Duration // for a chunk, of the GPU's time; a timeout is an outage of the worker's GPU; 20 ms
	Pause            time.Duration // until the worker retries; doubles up to 60 times on repeated timeouts; 1 s
	PartialChecksums []bool        // by port: received frames may have partial L4 checksums
	Library          string        // path of libcuda; for tests

	// Limit is the time for a chunk if the GPU finishes nothing meanwhile, as in time slices of other
	// processes; at least Timeout. 0: Timeout on a GPU that no other process can use, else 1 s.
	Limit time.Duration

	// Choose gives each chunk to the engine that is predicted to finish it first. Otherwise the GPU gets every
	// chunk that it accepts.
	Choose bool

	// Shadow is N if the CPU repeats one in N chunks of each worker's GPU. A different result takes
	// the GPU out of use. 0: off.
	Shadow int

	// Gateway is the IPsec gateway of the workers' CPU engines, nil without IPsec. It must not change
	// while a device is opened or closed.
	Gateway *gateway.Gateway

	// HostNumbers keeps GPUs from taking sequence numbers of outbound SAs by themselves (lender). OpenAll sets it if one of several GPUs has no
	// access with atomic operations to the memory of the first.
	HostNumbers bool

	// GPUs is the number of GPUs that OpenAll opens; a failure of one is an error. 0: all that work, up
	// to one per worker.
	GPUs int

	// Workers is the number of expected engines: no more devices are opened, and OpenAll fails if they have room for fewer. 0: unknown.
	Workers int

	// Shares are the percentages of a GPU's blocks that each lane is served by first: chunks of later lanes
	// leave them free. Without any, all lanes use all blocks.
	Shares []int

	// Park is how long the kernel runs without need before it parks: it ends, and the GPU is free for other
	// processes, until it is needed. With Choose, it is needed unless the CPU can carry the load easily, and
	// launched again when the load rises; otherwise while workers have chunks. 0: never.
	Park time.Duration

	// ReleaseMemory frees the lookup tables while the kernel is parked.
	ReleaseMemory bool

	// Multiprocessors is the most that the device's streams use, rounded up to what its driver can divide.
	// 0: all.
	Multiprocessors int

	// SharedLimit limits the shared memory of a block in bytes, as a smaller GPU has it, and Warps is the
	// number of warps of a block; for tests and measurements. 0: what the GPU has, and what fits best.
	SharedLimit, Warps int

	// PlainTile is the usual number of packets of a tile without ESP, and SecuredBatch the bytes of a warp batch
	// of ESP packets with their keys (without them, where a share of the free blocks suffices), for measurements; see tiling.
	PlainTile, SecuredBatch int

	blocks int // of the kernel at most, for tests; 0: maxBlocks

	seqHome *Device // whose memory has the sequence numbers of the gateway's SAs; nil: the device itself
}

// withDefaults returns the options with defaults for zero values.
func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 20*time.Millisecond)
	o.Pause = cmp.Or(o.Pause, time.Second)
	return o
}
