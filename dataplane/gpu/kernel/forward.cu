/* Forwarding kernels, which process chunks of packets in host memory, and the kernel that updates
 * the device's forwarding tables. */
#define WARPS (FORWARD_THREADS / WARP_SIZE)
#define HOT_ENTRIES 64

#include "poll.h"

static_assert(sizeof(struct shared) == FORWARD_SHARED, "the host allocates it");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

/* Serves one mailbox slot per block until the host sends STOP. Warps process batches and report
 * them independently.
 *
 * Grid: one block per slot. Block: 512 threads. Dynamic shared memory: FORWARD_SHARED bytes.
 *
 * PCIe payload bytes per packet: reads 9 (descriptors, 256 per 28 packets) + 64 (header); writes
 * 32 (header) + 8 (result). With inlined headers: reads 9 + 64 or 32 (header); writes 32
 * (completion). Each poll of a warp reads 256 bytes. */
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS) resident(struct mailbox m)
{
	struct shared *sh = (struct shared *)memory;
	uint8_t *slot = m.slots + (uint64_t)blockIdx.x * m.slot_bytes;
	const uint64_t *descriptors = (const uint64_t *)(slot + m.descriptors);
	uint32_t warp = warp_id();
	struct warp_scratch *scratch = &sh->scratch[warp];
	struct poll_hint hint = {1, 0};

	for (uint32_t seq = 1;; seq++) {
		struct poll_result poll = wait_for_chunk(&m, sh, slot, seq, hint);
		uint32_t size = sh->size[seq % 2], n = packet_count(size);
		if (size == STOP)
			return;
		hint = poll_hint_of(size);
		if (poll.completed) /* a chunk with inlined headers has one batch per warp */
			continue;
		for (uint32_t batch = warp; batch < batch_count(n); batch += WARPS) {
			while ((batch != warp || !poll.ready) && !read_batch(descriptors, batch, seq, &poll.w))
				;
			struct snapshot s = load_headers(&m, scratch, poll.w, has_packet(batch, n));
			process_batch(&m, scratch, s, slot, batch, poll.w, m.umem + poll.w.low, has_packet(batch, n), ACCESS_128);
		}
		if (warp < batch_count(n)) {
			/* Each lane's fence orders its stores of results and frames before lane 0's
			 * store of done, behind __syncwarp, as seen by the host. */
			fence_acq_rel_sys();
			__syncwarp();
			if (lane_id() == 0)
				host_store32((uint32_t *)slot + warp, seq);
		}
	}
}

/* Processes chunk seq of one slot. finished counts the blocks that are done; it is 0 before and
 * after.
 *
 * Grid: any; ceil(n / 448) blocks give each warp one batch. Block: 512 threads. Dynamic shared
 * memory: FORWARD_SHARED bytes. PCIe bytes per packet: as resident without inlined headers. */
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS) launched(struct mailbox m, uint32_t number,
					uint32_t seq, uint32_t n, uint32_t *finished)
{
	struct shared *sh = (struct shared *)memory;
	uint8_t *slot = m.slots + (uint64_t)number * m.slot_bytes;
	const uint64_t *descriptors = (const uint64_t *)(slot + m.descriptors);
	uint32_t warp = warp_id();

	for (uint32_t batch = blockIdx.x * WARPS + warp; batch < batch_count(n); batch += gridDim.x * WARPS) {
		struct desc_word w;
		read_batch(descriptors, batch, seq, &w);
		struct snapshot s = load_headers(&m, &sh->scratch[warp], w, has_packet(batch, n));
		process_batch(&m, &sh->scratch[warp], s, slot, batch, w, m.umem + w.low, has_packet(batch, n), ACCESS_128);
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		fence_acq_rel_sys();
		if (atomic_inc_acq_rel(finished) == gridDim.x - 1) {
			*finished = 0;
			fence_acq_rel_sys();
			for (uint32_t i = 0; i < DONE_BATCHES; i++)
				host_store32((uint32_t *)slot + i, seq);
		}
	}
}

/* A table update: stores word into count consecutive words of 4 or 8 bytes at address at. */
struct patch {
	uint64_t at, word;
	uint32_t count, bytes;
};

CHECK_PATCH_LAYOUT;

/* Applies n table updates in order, then writes their running total to *applied.
 *
 * Grid: one block. Block: 512 threads. No dynamic shared memory. PCIe: writes 8 bytes in all; list
 * is in device memory. */
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS) patch_tables(const struct patch *list,
					uint32_t n, uint64_t *applied, uint64_t total)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = host_load64(&list[i].at), word = host_load64(&list[i].word);
		uint64_t shape = host_load64((const uint64_t *)&list[i].count);
		uint32_t count = (uint32_t)shape, bytes = (uint32_t)(shape >> 32);
		for (uint32_t k = threadIdx.x; k < count; k += FORWARD_THREADS) {
			if (bytes == 8)
				((volatile uint64_t *)at)[k] = word;
			else
				((volatile uint32_t *)at)[k] = (uint32_t)word;
		}
		fence_acq_rel_gpu();
		__syncthreads();
	}
	if (threadIdx.x == 0) {
		fence_acq_rel_sys();
		host_store64(applied, total);
	}
}
