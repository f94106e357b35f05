/* Entry kernels of copies.h and fused.h.
 *
 * Grid: a thread per packet. Block: 64 threads: few packets per multiprocessor, since each gets 64 bytes
 * from host memory every 6 ns. */
#include "../../dataplane/gpu/kernel/warp.h"

#include "copies.h"
#include "fused.h"

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

/* Processes a chunk in place. Shared memory: 7,424 bytes, static. PCIe payload bytes per packet: reads 8
 * (descriptor) + 64 (header), writes 32 (header) + 8 (result). */
extern "C" __global__ void __launch_bounds__(LADDER_THREADS) fused(struct fused f)
{
	static __shared__ struct fused_scratch all[LADDER_THREADS / WARP_SIZE];
	struct fused_scratch *scratch = &all[warp_id()];
	uint32_t first = blockIdx.x * LADDER_THREADS + warp_id() * WARP_SIZE, lane = lane_id();

	struct snapshot s = fused_read_frame(&f, scratch, first, lane);
	__syncwarp();
	fused_read_headers(&f, scratch, first, lane);
	__syncwarp();
	fused_decide(&f, scratch, s, first, lane);
	__syncwarp();
	fused_write_headers(&f, scratch, lane);
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
