/* Forwarding kernel, which processes tiles of packets in host memory, and the kernel that updates
 * the device's forwarding tables. */
#define HOT_ENTRIES 64

#include "poll.h"

struct shared {
	/* Header of the tile that warp 0 found, by the parity of its number: the previous one stays
	 * valid until all warps have read the next one. */
	uint32_t tile_header[2];
	struct warp_scratch scratch[] __attribute__((aligned(16))); /* by warp */
};

static_assert(sizeof(struct warp_scratch) == FORWARD_SCRATCH && __builtin_offsetof(struct shared, scratch) == FORWARD_HEADER, "the host allocates them");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

/* Waits for the tile with a number, or for the end of the kernel, which has the tile header STOP. Warps poll at
 * the same time, so that none starts a poll later than the others. Warp 0 polls until the tile comes, the others only in the first
 * BUSY_POLLS rounds. */
DEVICE struct poll_result wait_for_tile(const struct mailbox *m, struct shared *sh, uint8_t *slot, uint32_t number, struct poll_hint hint)
{
	struct poll_result poll = NO_RESULT(hint.lanes);
	uint32_t warp = warp_id();
	struct polled_words words = poll_words(m);

	for (uint32_t polls = 0;; polls++) {
		int asleep = blockIdx.x >= words.awake, busy = polls < BUSY_POLLS;
		if (words.awake == STOP) {
			poll.ready = 1;
			poll.header = STOP;
		} else if (asleep) {
			words = poll_words(m);
			polls = 0;
		} else if (!poll.ready && (warp == 0 || (busy && warp < hint.batches))) {
			poll_once(m, &sh->scratch[warp], slot, number, warp, busy && warp < INLINE_BATCHES ? hint.headers : 0, &words, &poll);
			complete_polled(m, &sh->scratch[warp], slot, number, warp, &poll);
		}
		if (threadIdx.x == 0 && poll.ready)
			sh->tile_header[number % 2] = poll.header;
		if (__syncthreads_or(warp == 0 && poll.ready))
			return poll;
		if (asleep || !busy)
			__nanosleep(asleep ? ASLEEP_NS : BACKOFF_NS);
	}
}

/* Serves one mailbox slot per block until the host stops the kernel. Warps process batches and report
 * them independently.
 *
 * Grid: one block per slot, and the watcher. Block: a warp per batch of the largest tile, up to
 * FORWARD_THREADS threads. Dynamic shared memory: FORWARD_HEADER bytes, and FORWARD_SCRATCH per warp.
 *
 * PCIe payload bytes per packet: reads 9 (descriptors, 256 per 28 packets) + 64 (header); writes
 * 32 (header; 28 behind a removed VLAN tag without a new one) + 8 (result). With inlined headers: reads 9 + 64 or 32 (header); writes 32
 * (completion). Each poll of a warp reads 256 bytes; if the previous tile had inlined headers, 1,792
 * more (short ones: 896) in the first warps. */
extern "C" __global__ void __launch_bounds__(FORWARD_THREADS) resident(struct mailbox m)
{
	struct shared *sh = (struct shared *)memory;
	uint8_t *slot = m.slots + (uint64_t)blockIdx.x * m.slot_bytes;
	const uint64_t *descriptors = (const uint64_t *)(slot + m.descriptors);
	uint32_t batch_index = warp_id();
	struct warp_scratch *scratch = &sh->scratch[batch_index];
	struct poll_hint hint = FIRST_HINT;

	if (blockIdx.x == m.block_count) {
		if (threadIdx.x == 0)
			watch(&m);
		return;
	}
	for (uint32_t number = host_load32((const uint32_t *)(slot + FIRST_TILE));; number++) {
		struct poll_result poll = wait_for_tile(&m, sh, slot, number, hint);
		uint32_t header = sh->tile_header[number % 2];
		if (header == STOP)
			return;
		hint = poll_hint_of(header); /* expect the next tile to be like this one */
		uint32_t batches = hint.batches; /* of this tile: batch_count(header) */
		if (poll.completed || batch_index >= batches)
			continue;
		if (!poll.ready)
			read_batch(descriptors, batch_index, number, hint.lanes, &poll.w);
		struct tile tile = tile_of(&m, slot, number, header, batch_index);
		int active = has_packet(&tile);
		struct snapshot s = load_headers(&m, &tile, scratch, poll.w, active);
		process_batch(&m, &tile, scratch, s, poll.w, tile.umem + poll.w.low, active, ACCESS_128);
		report_batch(&tile);
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
		/* Loads of system scope, although list is not in host memory: a copy engine has written it. */
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
