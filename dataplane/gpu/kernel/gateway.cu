/* IPsec gateway kernel: as the resident kernel, with ESP sealing and opening before the lookup. Its
 * blocks are smaller, because one takes most of a multiprocessor's shared memory. */
#define WARPS (GATEWAY_THREADS / WARP_SIZE)
#define CHECK_REVERSE_PATH 0

#include "poll.h"
#include "esp_batch.h"

/* Shared memory of a block. The staging buffers of its warps follow. */
struct gateway_shared {
	uint32_t encrypt[AES_ENCRYPT_WORDS], decrypt[AES_DECRYPT_WORDS], inverse[AES_INVERSE_WORDS];
	struct shared shared;
} __attribute__((aligned(16)));

static_assert(sizeof(struct gateway_shared) == GATEWAY_SHARED, "the host allocates it");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

/* Serves one mailbox slot per block until the host sends STOP.
 *
 * Grid: one block per slot. Block: 256 threads. Dynamic shared memory: GATEWAY_SHARED bytes and a
 * staging buffer of 4 * v.staging_words bytes per warp.
 *
 * PCIe payload bytes per packet with an ESP job: reads 9 (descriptors) + 16 (job) + the packet from
 * 2 bytes before its frame to the end of ESP, in 32-byte sectors; writes 8 (result) + the same
 * sectors, or those of the inner packet if it was opened. Key segments are read from device memory.
 * Other packets: as resident without inlined headers, and 16 (job) if the chunk has jobs. */
extern "C" __global__ void __launch_bounds__(GATEWAY_THREADS, 1) gateway(struct mailbox m, struct key_table v)
{
	struct gateway_shared *all = (struct gateway_shared *)memory;
	struct shared *sh = &all->shared;
	uint8_t *slot = m.slots + (uint64_t)blockIdx.x * m.slot_bytes;
	const uint64_t *descriptors = (const uint64_t *)(slot + m.descriptors);
	uint32_t warp = warp_id();
	struct warp_scratch *scratch = &sh->scratch[warp];
	struct staging staging = {(uint32_t *)(all + 1) + warp * v.staging_words, v.staging_words};
	struct aes_tables t = aes_tables_of(all->encrypt, all->decrypt, all->inverse, lane_id());
	struct poll_hint hint = {1, 0};

	aes_fill_encrypt(all->encrypt, threadIdx.x, GATEWAY_THREADS);
	aes_fill_decrypt(all->decrypt, all->inverse, threadIdx.x, GATEWAY_THREADS);
	__syncthreads();
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
			if (size & HAS_JOBS) {
				process_esp_batch(&m, &v, &staging, &t, scratch, slot, blockIdx.x, batch, poll.w, n);
				continue;
			}
			struct snapshot s = load_headers(&m, scratch, poll.w, has_packet(batch, n));
			process_batch(&m, scratch, s, slot, batch, poll.w, m.umem + poll.w.low, has_packet(batch, n), ACCESS_32);
		}
		if (warp >= batch_count(n))
			continue;
		/* As in forward.cu. This warp has processed every 8th batch, and stores every 8th of
		 * the 16 done words. */
		fence_acq_rel_sys();
		__syncwarp();
		if (lane_id() == 0)
			for (uint32_t i = warp; i < batch_count(n) && i < DONE_BATCHES; i += WARPS)
				host_store32((uint32_t *)slot + i, seq);
	}
}
