/* Entry kernels of copies.h and fused.h.
 *
 * Grid, but for the resident kernel: a thread per packet. Block: 64 threads: few packets per
 * multiprocessor, since each gets 64 bytes from host memory every 6 ns. */
#include "../../dataplane/gpu/kernel/warp.h"

#include "copies.h"
#include "fused.h"

static_assert(sizeof(struct fused_scratch) == RESIDENT_SCRATCH, "the host allocates it");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

/* The three kernels of a chunk in device memory. No shared memory, no PCIe transfers: the copies before and
 * after transfer 72 and 40 bytes per packet. */
extern "C" __global__ void __launch_bounds__(LADDER_THREADS) copies_1_look_up(struct copies c)
{
	uint32_t i = blockIdx.x * LADDER_THREADS + threadIdx.x;

	if (i < c.n)
		copies_look_up(&c, i);
}

extern "C" __global__ void __launch_bounds__(LADDER_THREADS) copies_2_rewrite(struct copies c)
{
	uint32_t i = blockIdx.x * LADDER_THREADS + threadIdx.x;

	if (i < c.n)
		copies_rewrite(&c, i);
}

extern "C" __global__ void __launch_bounds__(LADDER_THREADS) copies_3_gather(struct copies c)
{
	uint32_t i = blockIdx.x * LADDER_THREADS + threadIdx.x;

	if (i < c.n)
		copies_gather(&c, i);
}

/* Processes 32 packets of a chunk, whose descriptors the lanes have or are loading. */
DEVICE void process(const struct fused *f, struct fused_scratch *scratch, uint32_t first, uint32_t lane, uint64_t frame)
{
	struct snapshot s = take_snapshot(&f->tables); /* while descriptors are on their way */

	fused_store_frame(scratch, lane, frame);
	__syncwarp();
	fused_read_headers(f, scratch, first, lane);
	__syncwarp();
	fused_decide(f, scratch, s, first, lane);
	__syncwarp();
	fused_write_headers(f, scratch, lane);
	__syncwarp();
}

/* Processes a chunk in place. Shared memory: 7,424 bytes, static. PCIe payload bytes per packet: reads 8
 * (descriptor) + 64 (header), writes 32 (header) + 8 (result). */
extern "C" __global__ void __launch_bounds__(LADDER_THREADS) fused(struct fused f)
{
	static __shared__ struct fused_scratch all[LADDER_THREADS / WARP_SIZE];
	struct fused_scratch *scratch = &all[warp_id()];
	uint32_t first = blockIdx.x * LADDER_THREADS + warp_id() * WARP_SIZE, lane = lane_id();

	process(&f, scratch, first, lane, fused_load_frame(&f, first, lane));
	__syncthreads();
	if (threadIdx.x == 0) {
		fence_acq_rel_sys();
		if (atomic_inc_acq_rel(f.finished) == gridDim.x - 1) {
			*f.finished = 0;
			fence_acq_rel_sys();
			host_store32(f.done, f.seq);
		}
	}
}

/* Polls a slot until it has chunk seq. Also loads the lane's descriptor of the warp's first packets, in the same
 * round trip. Returns the number of packets. */
DEVICE uint32_t poll(const uint8_t *slot, uint32_t seq, uint64_t *frame)
{
	for (uint32_t polls = 0;; polls++) {
		*frame = host_load64((const uint64_t *)(slot + RESIDENT_DESCRIPTORS) + threadIdx.x);
		uint64_t doorbell = host_load64((const uint64_t *)(slot + RESIDENT_DOORBELL));
		uint32_t n = (uint32_t)(doorbell >> 32);
		int valid = threadIdx.x >= n || n == RESIDENT_STOP || *frame >> 48 == resident_tag(seq);
		if (__all_sync(FULL_MASK, (uint32_t)doorbell == seq && valid))
			return n;
		if (polls > 100)
			__nanosleep(2000);
	}
}

/* Serves a slot per block until the host stops it: a chunk is processed by one block.
 *
 * Grid: one block per slot. Block: 512 threads. Dynamic shared memory: a struct fused_scratch per warp. PCIe
 * payload bytes per packet: as fused. Each poll of a warp reads 264 bytes. */
extern "C" __global__ void __launch_bounds__(RESIDENT_THREADS) resident_block(struct resident r)
{
	static __shared__ uint32_t n;
	struct fused_scratch *scratch = (struct fused_scratch *)memory + warp_id();
	const uint8_t *slot = r.slots + (uint64_t)blockIdx.x * r.slot_bytes;
	uint32_t lane = lane_id(), pollers = 1; /* warps that poll: as many as had packets of the last chunk, if it was small */

	for (uint32_t seq = 1;; seq++) {
		uint64_t frame = 0;
		if (warp_id() < pollers) {
			uint32_t packets = poll(slot, seq, &frame);
			if (threadIdx.x == 0)
				n = packets;
		}
		__syncthreads();
		if (n == RESIDENT_STOP)
			return;
		struct fused f = resident_chunk(&r, blockIdx.x, seq, n);
		for (uint32_t first = warp_id() * WARP_SIZE; first < f.n; first += RESIDENT_THREADS) {
			int polled = first < pollers * WARP_SIZE;
			process(&f, scratch, first, lane, polled ? frame : fused_load_frame(&f, first, lane));
		}
		pollers = f.n <= RESIDENT_POLLED ? (f.n + WARP_SIZE - 1) / WARP_SIZE : 1;
		__syncthreads();
		if (threadIdx.x == 0) {
			fence_acq_rel_sys();
			host_store32(f.done, seq);
		}
	}
}
