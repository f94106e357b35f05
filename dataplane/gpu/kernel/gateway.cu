/* IPsec gateway kernel: as the forwarding kernel, with ESP sealing and opening before the lookup. Its
 * blocks are smaller, because one takes most of a multiprocessor's shared memory. */
#define CHECK_REVERSE_PATH 0
#define ADD_TAGS 0
#define HALF_BATCHES 1
#define ROW_WORDS 33 /* a head and a word more: heads.h */

#include "claim.h"
#include "poll.h"
#include "esp_batch.h"

/* AES tables of a block: the first aes_bytes of struct ipsec_tables. With AES_ENCRYPT_BYTES, there are no decrypt and inverse. Then follow the block's struct shared, and
 * per warp a struct warp_memory and its staging buffer. */
struct aes_memory {
	uint32_t encrypt[AES_ENCRYPT_WORDS], decrypt[AES_DECRYPT_WORDS], inverse[AES_INVERSE_WORDS];
} __attribute__((aligned(16)));

struct shared {
	struct claims claims;
	struct block_lock locks[GATEWAY_DEPTH]; /* by the remainder of the tile's number */
} __attribute__((aligned(16)));

struct warp_memory {
	struct tile tile; /* of the batch that the warp processes; it would take registers */
	struct warp_scratch scratch;
} __attribute__((aligned(16)));

static_assert(sizeof(struct aes_memory) == AES_BYTES && __builtin_offsetof(struct aes_memory, decrypt) == AES_ENCRYPT_BYTES, "the host allocates them");
static_assert(sizeof(struct shared) == GATEWAY_HEADER, "the host allocates it");
static_assert(sizeof(struct warp_memory) == GATEWAY_SCRATCH && sizeof(struct warp_memory) == __builtin_offsetof(struct warp_memory, scratch) + sizeof(struct warp_scratch), "the staging buffer is directly behind the rows");

extern __shared__ __attribute__((aligned(16))) uint32_t memory[];

/* Fills the shared memory of a block that begins with the tile with a number. All threads call it. */
DEVICE void init_shared(struct shared *sh, struct aes_memory *aes, int with_decrypt, uint32_t number)
{
	if (threadIdx.x == 0) {
		init_claims(&sh->claims, number);
		for (uint32_t i = 0; i < GATEWAY_DEPTH; i++)
			sh->locks[i] = (struct block_lock){0, 0}; /* no batch waits for that: the first one of a tile waits for its ticket */
	}
	aes_fill_encrypt(aes->encrypt, threadIdx.x, blockDim.x);
	if (with_decrypt)
		aes_fill_decrypt(aes->decrypt, aes->inverse, threadIdx.x, blockDim.x);
	__syncthreads();
}

/* Finds the batch of a claim (find_claim). *others is whether other warps of the block process batches, if this is the first of a tile that has not
 * come. All lanes call it. */
DEVICE struct claim look_up_claim(struct claims *claims, uint32_t claim, int *others)
{
	struct claim c = {0, 0, 0, 0};
	uint32_t v = 0;

	if (lane_id() == 0) {
		c = find_claim(claims, claim);
		v = !c.header && c.batch == 0 && atomic_load_shared32(&claims->claimed) - claim < blockDim.x / WARP_SIZE;
	}
	*others = (int)__shfl_sync(FULL_MASK, v, 0);
	c.number = __shfl_sync(FULL_MASK, c.number, 0);
	c.batch = __shfl_sync(FULL_MASK, c.batch, 0);
	c.header = __shfl_sync(FULL_MASK, c.header, 0);
	c.newest = __shfl_sync(FULL_MASK, c.newest, 0);
	return c;
}

/* How a free warp polls for a tile. */
struct poll_state {
	uint32_t number;        /* of the tile */
	uint32_t round;         /* since the tile before came, or the warp is free */
	uint32_t polls_of_all;  /* rounds in which it polls although it is not the one with the tile's first batch */
	struct poll_hint hint;  /* of the tile before: the next one is expected to be like it */
	struct polled_words words;
};

/* Begins to poll for the tile after the newest. */
DEVICE void expect_tile(const struct mailbox *m, const struct claim *c, struct poll_state *s, struct poll_result *poll)
{
	s->number = c->number;
	s->hint = c->newest ? poll_hint_of(c->newest) : FIRST_HINT;
	s->polls_of_all = s->hint.headers ? BUSY_POLLS : 1;
	if (s->hint.headers)
		s->round = 0;
	else if (s->round > 0)
		s->round = 1; /* only a warp that was not free before polls once for a batch behind the first */
	s->words = poll_words(m);
	poll->lanes = s->hint.lanes;
}

/* Claims a batch and waits for its tile, or for the end of the kernel, which has the tile header STOP. The warp with the first batch of the
 * next tile polls until it comes, rarely while other warps of the block process batches. Other free warps poll in the first rounds: one, or
 * BUSY_POLLS if inlined headers are expected. */
DEVICE struct claim wait_for_batch(const struct mailbox *m, struct claims *claims, struct warp_scratch *scratch, struct poll_result *poll)
{
	struct poll_state s = {0, 0, 1, FIRST_HINT, poll_words(m)};
	uint32_t claim = 0;

	if (lane_id() == 0)
		claim = claim_next(claims);
	*poll = NO_RESULT(WARP_SIZE);
	for (;; s.round++) {
		int others;
		struct claim c = look_up_claim(claims, claim, &others);
		if (c.header)
			return c;
		if (c.number != s.number)
			expect_tile(m, &c, &s, poll);
		if (others)
			s.round %= RARE_POLLS;
		uint32_t awake = __shfl_sync(FULL_MASK, s.words.awake, 0), lanes = poll->lanes;
		int asleep = blockIdx.x >= awake, busy = s.round < BUSY_POLLS, first = c.batch == 0;
		int polls = !asleep && (first ? !others || s.round == 0 : s.round < s.polls_of_all && c.batch < s.hint.batches);
		uint8_t *slot = slot_of(m, GATEWAY_DEPTH, c.number);
		if (first && awake == STOP) {
			if (lane_id() == 0)
				atomic_store_shared32(&claims->stopped, 1);
		} else if (asleep) {
			s.words = poll_words(m);
			s.round = 0;
		} else if (polls) {
			poll_once(m, scratch, slot, c.number, c.batch, busy && c.batch < INLINE_BATCHES ? s.hint.headers : 0, &s.words, poll);
		}
		if (poll->ready) {
			c.header = poll->header;
			if (lane_id() == 0)
				publish_tile(claims, claim, &c, c.header, batch_count(c.header));
			complete_polled(m, scratch, slot, c.number, c.batch, poll);
			return c;
		}
		if (poll->lanes != lanes)
			s.round = RARE_POLLS - 1; /* the tile has come, but more lanes must read it: at once */
		else if (asleep)
			__nanosleep(ASLEEP_NS);
		else if (first && !busy)
			__nanosleep(BACKOFF_NS);
		else if (!polls)
			__nanosleep(CLAIM_NS);
	}
}

/* Serves the slots of each block until the host stops the kernel.
 *
 * Grid: block_count blocks, and the watcher. Block: a warp per batch of the largest tile, up to
 * GATEWAY_THREADS threads. Dynamic shared memory: ipsec.aes_bytes and GATEWAY_HEADER bytes, and per warp
 * GATEWAY_SCRATCH (its tile and its scratch) and a staging buffer of 4 * ipsec.staging_words bytes.
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
	struct warp_memory *mine = (struct warp_memory *)((uint8_t *)(sh + 1) + warp_id() * (GATEWAY_SCRATCH + 4 * (uint32_t)ipsec.staging_words));
	struct warp_scratch *scratch = &mine->scratch;
	struct tile *tile = &mine->tile;
	struct staging staging = {(uint32_t *)(mine + 1), (uint32_t)ipsec.staging_words};
	struct aes_tables t = aes_tables_of(aes->encrypt, aes->decrypt, aes->inverse, lane_id());

	if (blockIdx.x == m.block_count) {
		if (threadIdx.x == 0)
			watch(&m);
		return;
	}
	init_shared(sh, aes, ipsec.aes_bytes == AES_BYTES, host_load32((const uint32_t *)(slot_of(&m, GATEWAY_DEPTH, 0) + FIRST_TILE)));
	for (;;) {
		struct poll_result poll;
		struct claim c = wait_for_batch(&m, &sh->claims, scratch, &poll);
		uint32_t header = c.header;
		if (header == STOP)
			return;
		if (poll.completed)
			continue;
		uint8_t *slot = slot_of(&m, GATEWAY_DEPTH, c.number);
		if (!poll.ready)
			read_batch((const uint64_t *)(slot + m.descriptors), c.batch, c.number, descriptor_lanes(header), &poll.w);
		if (lane_id() == 0)
			*tile = tile_of(&m, slot, c.number, header, c.batch);
		__syncwarp();
		int active = has_packet(tile);
		if (header & (HAS_JOBS | FIND_SAS | EXPECT_SA) || (header & ASSIGN_SEQS) == ASSIGN_SEQS) {
			process_esp_batch(&m, tile, &ipsec, &staging, &t, scratch, &sh->locks[c.number % GATEWAY_DEPTH], poll.w, header);
		} else if (header & SEQ_REQUESTS) {
			serve_batch(&m, tile, &ipsec, poll.w);
		} else if (header & CLASSIFY) {
			classify_batch(&m, tile, &ipsec, scratch, poll.w, (header & CLAMP_MSS) != 0);
		} else {
			struct snapshot s = load_headers(&m, tile, scratch, poll.w, active);
			process_batch(&m, tile, scratch, s, poll.w, tile->umem + poll.w.low, active, ACCESS_32);
		}
		report_batch(tile);
	}
}
