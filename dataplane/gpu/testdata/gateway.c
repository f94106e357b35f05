/* gateway STAGING_WORDS AES_BYTES [MOST_SETS]: one emulated warp that runs the gateway kernel's code on the warp batches of a chunk,
 * one after another. It fails if it stages the packets of a batch in more than MOST_SETS sets. */
#define _GNU_SOURCE /* memmem */
#define CHECK_REVERSE_PATH 0 /* as gateway.cu */
#define HALF_BATCHES 1
#define ROW_WORDS 33
#include <stdint.h>

static void count_read(const uint8_t *p);
#define SEGMENT_ACCESS(p) count_read(p)
#include "shim.h"

#include "../kernel/staging.h"

static struct staged_set count_set(const struct staging *s, uint32_t pending, struct esp_lane *c, int find);
#define place_packets count_set
#include "../kernel/esp_batch.h"
#undef place_packets
#include "lanes.h"

#define SEGMENTS (256 * FRAME_BYTES / SEGMENT) /* of the first frames of the UMEM */

static uint8_t *base;
static struct mailbox mailbox;
static struct ipsec_tables ipsec_tables;
static struct staging staging;
static struct warp_scratch *scratch; /* directly in front of the staging buffer */
static uint32_t encrypt[AES_ENCRYPT_WORDS], decrypt[AES_DECRYPT_WORDS], inverse[AES_INVERSE_WORDS];
static struct tile tile;
static uint32_t flags, last_header; /* of the tile, and of the tile before */
static struct block_lock block_lock;
static uint32_t sets, most_sets = WARP_SIZE; /* of the current batch */
static uint8_t reads[SEGMENTS]; /* of each segment of the UMEM, for the current tile */

static void count_read(const uint8_t *p)
{
	size_t at = p - tile.umem;

	if (p >= tile.umem && at < tile.umem_bytes && at / SEGMENT < SEGMENTS)
		reads[at / SEGMENT]++;
}

static struct staged_set count_set(const struct staging *s, uint32_t pending, struct esp_lane *c, int find)
{
	if (lane_id() == 0 && ++sets > most_sets) {
		fprintf(stderr, "gateway: batch %u of %u packets needs more than %u sets\n", tile.batch, tile.batch_packets, most_sets);
		exit(1);
	}
	return place_packets(s, pending, c, find);
}

static void subwarp_sync(uint32_t n)
{
	(void)n;
	wait_at("subwarp_sync");
}

static uint32_t subwarp_shfl_xor(uint32_t v, uint32_t distance, uint32_t n)
{
	(void)n;
	return exchange(v, running ^ distance, "subwarp_shfl_xor");
}

static uint32_t subwarp_rotate(uint32_t v, uint32_t n, uint32_t width, uint32_t of)
{
	(void)of;
	return exchange(v, running / width * width + (running + n) % width, "subwarp_rotate");
}

static void lane(void)
{
	const uint64_t *descriptors = (const uint64_t *)(base + ((const struct memory *)base)->slot);
	struct aes_tables t = aes_tables_of(encrypt, decrypt, inverse, running);
	struct desc_word w;
	uint32_t lanes = descriptor_lanes(last_header), header = 0;

	for (int i = 0; i < 2 && !header; i++) /* as wait_for_batch: at first like the last tile */
		header = accept_descriptors(load_descriptors(descriptors, tile.batch, lanes), (uint32_t)descriptors[0], &lanes, &w);
	uint64_t word = descriptors[tile.batch * WARP_SIZE + running];
	if (has_packet(&tile) && (w.low != (uint32_t)word || w.high != word >> 32)) {
		fprintf(stderr, "gateway: lane %u has accepted a descriptor of tile %u that it has not read\n", running, (uint32_t)descriptors[0]);
		exit(1);
	}
	if (header % TILE_PACKETS != tile.packets || lanes != descriptor_lanes(flags)) {
		fprintf(stderr, "gateway: %u lanes have read the header of batch %u: %#x, want %#x\n", lanes, tile.batch, header, flags);
		exit(1);
	}
	if ((flags & (SEQ | CLASSIFY | HAS_JOBS)) == SEQ_REQUESTS) /* as in gateway.cu */
		serve_batch(&mailbox, &tile, &ipsec_tables, w);
	else if (flags & CLASSIFY && !(flags & (FIND_SAS | SEQ)))
		classify_batch(&mailbox, &tile, &ipsec_tables, scratch, w, (flags & CLAMP_MSS) != 0);
	else
		process_esp_batch(&mailbox, &tile, &ipsec_tables, &staging, &t, scratch, &block_lock, w, flags);
	end_lane();
}

/* Returns whether the scratch or the staging buffer holds part of a key of the batch's jobs. Segments of zeros, which
 * test vectors have, cannot be told from cleared ones. */
static int keeps_keys(void)
{
	const struct job *jobs = (const void *)(tile.slot + mailbox.jobs);
	static const uint8_t zeros[SEGMENT];

	for (uint32_t i = tile.batch * tile.batch_packets; i < tile.packets && i < (tile.batch + 1u) * tile.batch_packets; i++) {
		const struct job *j = &jobs[i];
		if (job_kind(j) < JOB_SEAL)
			continue;
		const struct esp_key *k = &ipsec_tables.keys[j->key & JOB_KEY_MASK];
		for (uint32_t segment = 0; segment < k->segments; segment++)
			if (memcmp(esp_key_segment(k, segment), zeros, SEGMENT) && memmem(scratch, sizeof *scratch + 4 * staging.size, esp_key_segment(k, segment), SEGMENT))
				return 1;
	}
	return 0;
}

/* Runs a tile with a header. */
static void work_on(uint32_t header)
{
	static uint32_t seq;

	tile = tile_of(&mailbox, base, ++seq, header, 0);
	flags = header;
	memset(reads, 0, sizeof reads);
	for (; tile.batch < batch_count(header); tile.batch++) {
		memset(scratch, 0xa5, sizeof *scratch + 4 * staging.size);
		sets = 0;
		run_lanes(lane);
		if (tile.batch + 1u == batch_count(header) && block_lock.returned) {
			fprintf(stderr, "gateway: behind a tile, additions of batches %#x are still recorded\n", block_lock.returned);
			exit(1);
		}
		if (!(flags & (FIND_SAS | CLASSIFY | EXPECT_SA | SEQ)) && keeps_keys()) {
			fprintf(stderr, "gateway: a key is left in the staging buffer\n");
			exit(1);
		}
	}
	last_header = header;
	for (uint32_t i = 0; i < SEGMENTS && flags & (FIND_SAS | EXPECT_SA | SEQ) && !(flags & HAS_JOBS); i++) {
		if (reads[i] > 1) {
			fprintf(stderr, "gateway: segment %u of the UMEM is read %u times\n", i, reads[i]);
			exit(1);
		}
	}
}

/* Maps memory that ends at an inaccessible page, so that an overrun faults. */
static void *end_with_memory(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
	uint8_t *mem = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED || mprotect(mem + room, page, PROT_NONE) < 0) {
		fprintf(stderr, "gateway: map memory for a staging buffer of %zu bytes: %s\n", bytes, strerror(errno));
		return NULL;
	}
	return mem + room - bytes;
}

int main(int argc, char **argv)
{
	if (!(base = map_shared()) || (argc != 3 && argc != 4))
		return 1;
	const struct memory *s = (const void *)base;
	staging.size = (uint32_t)atoi(argv[1]);
	if (!(scratch = end_with_memory(sizeof *scratch + 4 * staging.size)))
		return 1;
	staging.words = (uint32_t *)(scratch + 1);
	ipsec_tables.aes_bytes = (uint64_t)atol(argv[2]);
	if (argc == 4)
		most_sets = (uint32_t)atoi(argv[3]);
	for (uint32_t thread = 0; thread < 3; thread++) {
		aes_fill_encrypt(encrypt, thread, 3);
		if (ipsec_tables.aes_bytes == AES_BYTES)
			aes_fill_decrypt(decrypt, inverse, thread, 3);
	}
	struct worker_memory worker = {base + s->umem, s->umem_bytes};
	mailbox = (struct mailbox){
		.results = (uint32_t)s->out, .jobs = (uint32_t)s->jobs, .workers = &worker, .tables = tables_in(base),
		.control = (const void *)(base + s->slot + (1 << 15)), /* behind the descriptors */
	};
	static uint64_t policies;
	policies = (uintptr_t)(base + s->policies);
	ipsec_tables = (struct ipsec_tables){(const void *)(base + s->keys), &policies, (const void *)(base + s->spis),
					     (void *)(base + s->seqs), (void *)(base + s->tunnels), (void *)(base + s->now_serving), staging.size, ipsec_tables.aes_bytes};
	for (uint32_t header; fread(&header, sizeof header, 1, stdin) == 1; ) {
		work_on(header);
		if (fwrite(&header, sizeof header, 1, stdout) != 1 || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
