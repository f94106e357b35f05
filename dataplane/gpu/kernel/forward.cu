/* The entry kernels: chunks of packets are decided on and rewritten where they
 * lie, in the host's memory. */
#define WARPS 16
#define NEARBY 64

#include "await.h"

#define THREADS (WARPS * WARP)

static_assert(sizeof(struct shared) == FORWARD_SHARED, "the router makes room for it");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

/* A block of the resident kernel serves one slot until it is told to stop. Its warps
 * are done each by itself, and say so each by itself, or answer. */
extern "C" __global__ void __launch_bounds__(THREADS) resident(struct mailbox m)
{
	struct shared *sh = (struct shared *)memory;
	uint8_t *slot = m.slots + (uint64_t)block_index() * m.slot_bytes;
	const uint64_t *quads = (const uint64_t *)(slot + m.quads);
	uint32_t warp = warp_index();
	struct desk *desk = &sh->desks[warp];
	struct outlook o = {1, 0};

	for (uint32_t seq = 1;; seq++) {
		struct sight see = await(&m, sh, slot, seq, o);
		uint32_t size = sh->size[seq % 2], n = size_of(size);
		if (size == STOP)
			return;
		o = outlook_of(size);
		if (see.answered) /* all that it has: a chunk with heads is small */
			continue;
		for (uint32_t quad = warp; quad < quads_of(n); quad += WARPS) {
			while ((quad != warp || !see.quad) && !read_quad(quads, quad, seq, &see.w))
				;
			struct snapshot s = fetch(&m, desk, see.w, is_packet(quad, n));
			work(&m, desk, s, slot, quad, see.w, m.umem + see.w.low, is_packet(quad, n), IN_LINES);
		}
		if (warp < quads_of(n)) {
			fence_host();
			join_warp();
			if (lane_index() == 0)
				host_store32((uint32_t *)slot + warp, seq);
		}
	}
}

/* The launched kernel works off the chunk seq of one slot, with as many blocks as
 * it likes; finished counts them, and is 0 before and after. */
extern "C" __global__ void __launch_bounds__(THREADS) launched(struct mailbox m, uint32_t number, uint32_t seq, uint32_t n, uint32_t *finished)
{
	struct shared *sh = (struct shared *)memory;
	uint8_t *slot = m.slots + (uint64_t)number * m.slot_bytes;
	const uint64_t *quads = (const uint64_t *)(slot + m.quads);
	uint32_t warp = warp_index();

	for (uint32_t quad = block_index() * WARPS + warp; quad < quads_of(n); quad += block_count() * WARPS) {
		struct word w;
		read_quad(quads, quad, seq, &w);
		struct snapshot s = fetch(&m, &sh->desks[warp], w, is_packet(quad, n));
		work(&m, &sh->desks[warp], s, slot, quad, w, m.umem + w.low, is_packet(quad, n), IN_LINES);
	}
	join_block();
	if (thread_index() == 0) {
		fence_host();
		if (count_up(finished) == block_count() - 1) {
			*finished = 0;
			fence_host();
			for (uint32_t i = 0; i < WARPS; i++)
				host_store32((uint32_t *)slot + i, seq);
		}
	}
}

/* A change of the device's copy of the forwarding base: count words of 4 or 8
 * bytes from an address on. */
struct patch {
	uint64_t at, word;
	uint32_t count, bytes;
};

/* Makes changes one after another, by one block; then says how many were made so far. */
extern "C" __global__ void __launch_bounds__(THREADS) patch_tables(const struct patch *list, uint32_t n, uint64_t *made, uint64_t sum)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = host_load64(&list[i].at), word = host_load64(&list[i].word);
		uint64_t shape = host_load64((const uint64_t *)&list[i].count);
		uint32_t count = (uint32_t)shape, bytes = (uint32_t)(shape >> 32);
		for (uint32_t k = thread_index(); k < count; k += THREADS) {
			if (bytes == 8)
				((volatile uint64_t *)at)[k] = word;
			else
				((volatile uint32_t *)at)[k] = (uint32_t)word;
		}
		fence_device();
		join_block();
	}
	if (thread_index() == 0) {
		fence_host();
		host_store64(made, sum);
	}
}
