/* IPsec gateway kernel: as the forwarding kernel, with ESP sealing and opening before the lookup. Its
 * blocks are smaller, because one takes most of a multiprocessor's shared memory. */
#define CHECK_REVERSE_PATH 0
#define ADD_TAGS 0
#define FEW_REGISTERS
#define HALF_BATCHES 1
#define ROW_WORDS 33 /* a head and a word more: heads.h */

#include "poll.h"
#include "esp_batch.h"

/* AES tables of a block: the first aes_bytes of struct ipsec_tables. With AES_ENCRYPT_BYTES, there are no decrypt and inverse. Then follow the block's struct shared, the
 * tiles that its warps process, for which there are no registers, and then their staging buffers. */
struct aes_memory {
	uint32_t encrypt[AES_ENCRYPT_WORDS], decrypt[AES_DECRYPT_WORDS], inverse[AES_INVERSE_WORDS];
} __attribute__((aligned(16)));

static_assert(sizeof(struct aes_memory) == AES_BYTES && __builtin_offsetof(struct aes_memory, decrypt) == AES_ENCRYPT_BYTES, "the host allocates them");
static_assert(sizeof(struct warp_scratch) + sizeof(struct tile) == GATEWAY_SCRATCH, "the host allocates them");
static_assert(sizeof(struct block_lock) == sizeof(((struct shared *)0)->lock), "struct shared has room for it");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

/* Serves the slots of each block until the host stops the kernel.
 *
 * Grid: block_count blocks, and the watcher. Block: a warp per batch of the largest tile, up to
 * GATEWAY_THREADS threads. Dynamic shared memory: ipsec.aes_bytes and SHARED_HEADER bytes, and per warp
 * GATEWAY_SCRATCH (its scratch and its tile) and a staging buffer of 4 * ipsec.staging_words bytes.
 *
 * PCIe payload bytes per packet with an ESP job: reads 9 to 256 (descriptors: 128 per batch of up to 14 packets without EXPECT_SA, else 256) + 16 (job) +
 * the packet from 2 bytes before its frame to the end of ESP, in 32-byte sectors; writes 8 (result) +
 * the same sectors, or those of the inner packet if it was opened. Key segments are read from device
 * memory. With FIND_SAS and EXPECT_SA, it reads whole received packets in place of jobs; with ASSIGN_SEQS, those that it seals, and
 * up to 128 bytes (heads.h) of those that are the host's. Nothing in front of or behind the received frame is read. It writes 8 more
 * (key, and sequence number or length). With CLASSIFY alone, it reads 64 of each packet and writes 8. Other packets: as in forward.cu without inlined headers, and 16 (job) if the tile has jobs. */
extern "C" __global__ void __launch_bounds__(GATEWAY_THREADS, 1) gateway(struct mailbox m, struct ipsec_tables ipsec)
{
	struct aes_memory *aes = (struct aes_memory *)memory;
	struct shared *sh = (struct shared *)((uint8_t *)memory + (uint32_t)ipsec.aes_bytes);
	uint32_t batch_index = warp_id();
	struct warp_scratch *scratch = &sh->scratch[batch_index];
	uint32_t warps = blockDim.x / WARP_SIZE;
	struct tile *tiles = (struct tile *)&sh->scratch[warps], *tile = &tiles[batch_index];
	struct staging staging = {(uint32_t *)&tiles[warps] + batch_index * (uint32_t)ipsec.staging_words, (uint32_t)ipsec.staging_words};
	struct aes_tables t = aes_tables_of(aes->encrypt, aes->decrypt, aes->inverse, lane_id());
	struct poll_hint hint = FIRST_HINT;

	if (blockIdx.x == m.block_count) {
		if (threadIdx.x == 0)
			watch(&m);
		return;
	}
	struct block_lock *lock = (struct block_lock *)sh->lock;
	if (threadIdx.x == 0)
		*lock = (struct block_lock){0, 0}; /* no batch waits for that: the first one of a tile waits for its ticket */
	aes_fill_encrypt(aes->encrypt, threadIdx.x, blockDim.x);
	if (ipsec.aes_bytes == AES_BYTES)
		aes_fill_decrypt(aes->decrypt, aes->inverse, threadIdx.x, blockDim.x);
	__syncthreads();
	for (uint32_t number = host_load32((const uint32_t *)(slot_of(&m, GATEWAY_DEPTH, 0) + FIRST_TILE));; number++) {
		uint8_t *slot = slot_of(&m, GATEWAY_DEPTH, number);
		const uint64_t *descriptors = (const uint64_t *)(slot + m.descriptors);
		struct poll_result poll = wait_for_tile(&m, sh, slot, number, hint, hint.headers ? BUSY_POLLS : 1);
		uint32_t header = sh->tile_header[number % 2];
		if (header == STOP)
			return;
		hint = poll_hint_of(header); /* expect the next tile to be like this one */
		uint32_t batches = hint.batches; /* of this tile: batch_count(header) */
		if (poll.completed || batch_index >= batches)
			continue;
		if (!poll.ready)
			read_batch(descriptors, batch_index, number, hint.lanes, &poll.w);
		if (lane_id() == 0)
			*tile = tile_of(&m, slot, number, header);
		__syncwarp();
		int active = has_packet(tile, batch_index);
		if (header & (HAS_JOBS | FIND_SAS | EXPECT_SA) || (header & ASSIGN_SEQS) == ASSIGN_SEQS) {
			process_esp_batch(&m, tile, &ipsec, &staging, &t, scratch, lock, batch_index, poll.w, header);
		} else if (header & SEQ_REQUESTS) {
			serve_batch(&m, tile, &ipsec, batch_index, poll.w);
		} else if (header & CLASSIFY) {
			classify_batch(&m, tile, &ipsec, scratch, batch_index, poll.w, (header & CLAMP_MSS) != 0);
		} else {
			struct snapshot s = load_headers(&m, tile, scratch, poll.w, active);
			process_batch(&m, tile, scratch, s, batch_index, poll.w, tile->umem + poll.w.low, active, ACCESS_32);
		}
		report_batch(tile, batch_index);
	}
}
