/* The entry kernel of a router that is an IPsec gateway: as the resident one, but that
 * packets are sealed and opened on the way. Its blocks are smaller, as they take most of
 * a multiprocessor's shared memory. */
#define WARPS 8
#define VERIFY_SOURCES 0

#include "await.h"
#include "secure.h"

#define THREADS (WARPS * WARP)

/* Shared memory of a block. The stages of its warps are behind. */
struct gateway_shared {
	uint32_t encrypt[AES_ENCRYPT_WORDS], decrypt[AES_DECRYPT_WORDS], inverse[AES_INVERSE_WORDS];
	struct shared shared;
} __attribute__((aligned(16)));

static_assert(sizeof(struct gateway_shared) == GATEWAY_SHARED, "the router makes room for it");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

extern "C" __global__ void __launch_bounds__(THREADS, 1) gateway(struct mailbox m, struct vault v)
{
	struct gateway_shared *all = (struct gateway_shared *)memory;
	struct shared *sh = &all->shared;
	uint8_t *slot = m.slots + (uint64_t)block_index() * m.slot_bytes;
	const uint64_t *quads = (const uint64_t *)(slot + m.quads);
	uint32_t warp = warp_index();
	struct desk *desk = &sh->desks[warp];
	struct stage stage = {(uint32_t *)(all + 1) + warp * v.stage_words, v.stage_words};
	struct aes_tables t = aes_tables_of(all->encrypt, all->decrypt, all->inverse, lane_index());
	struct outlook o = {1, 0};

	aes_fill_encrypt(all->encrypt, thread_index(), THREADS);
	aes_fill_decrypt(all->decrypt, all->inverse, thread_index(), THREADS);
	join_block();
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
			if (size & JOBS) {
				work_with_jobs(&m, &v, &stage, &t, desk, slot, block_index(), quad, see.w, n);
				continue;
			}
			struct snapshot s = fetch(&m, desk, see.w, is_packet(quad, n));
			work(&m, desk, s, slot, quad, see.w, m.umem + see.w.low, is_packet(quad, n), IN_WORDS);
		}
		if (warp >= quads_of(n))
			continue;
		fence_host(); /* who finishes a quad, finishes every 8th behind it, and speaks for every 16th */
		join_warp();
		if (lane_index() == 0)
			for (uint32_t part = warp; part < quads_of(n) && part < 2 * WARPS; part += WARPS)
				host_store32((uint32_t *)slot + part, seq);
	}
}
