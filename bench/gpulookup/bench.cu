/* The benchmark's kernels: those that look up, a kernel that stays and does the same, and
 * what measures limits. */
#include "../../lookup/device/lookup.cu"

#define RESIDENT_THREADS 1024 /* of a block that stays */
#define STOP 0xffffffffu      /* as the number of a chunk: the block is to end */

/* Doorbells and done numbers, in host memory: a cache line and its neighbour for each block. */
#define LINE_BYTES 128

/* Resident kernels. A block waits for its doorbell, which has the number of the turn
 * in its lower half and that of a chunk in its upper, looks up the chunk's addresses,
 * size of them, and says so by the number of the turn. */
DEVICE void reside(const struct columns *c, int ipv6, uint32_t size, const uint8_t *doorbells, uint8_t *done)
{
	SHARED uint32_t shared;
	const uint64_t *doorbell = (const uint64_t *)(doorbells + block_index() * LINE_BYTES);
	uint32_t *answer = (uint32_t *)(done + block_index() * LINE_BYTES);

	for (uint32_t turn = 1;; turn++) {
		if (thread_index() == 0) {
			uint64_t rung;
			do
				rung = host_load64(doorbell);
			while ((uint32_t)rung != turn);
			fence_host();
			shared = (uint32_t)(rung >> 32);
		}
		join_block();
		uint32_t chunk = shared;
		if (chunk == STOP)
			return;
		look_up(c, ipv6, chunk * size, size, 0, 1, RESIDENT_THREADS);
		join_block();
		if (thread_index() == 0) {
			fence_host();
			host_store32(answer, turn);
		}
	}
}

KERNEL __launch_bounds__(RESIDENT_THREADS) resident4(struct columns c, uint32_t size, const uint8_t *doorbells, uint8_t *done)
{
	reside(&c, 0, size, doorbells, done);
}

KERNEL __launch_bounds__(RESIDENT_THREADS) resident6(struct columns c, uint32_t size, const uint8_t *doorbells, uint8_t *done)
{
	reside(&c, 1, size, doorbells, done);
}

/* Keeps the compiler from leaving loads out. */
DEVICE void use(uint32_t sum, uint32_t *unused)
{
	if (sum == 0x9e3779b9u)
		*unused = sum;
}

/* A limit: each thread reads times * EACH words of a root at random, and does nothing else. */
KERNEL __launch_bounds__(THREADS) gather(const uint32_t *image, uint32_t times, uint32_t *unused)
{
	uint32_t x = (block_index() * THREADS + thread_index()) * 0x9e3779b9u, sum = 0, word[EACH];

	for (uint32_t i = 0; i < times; i++) {
		for (int k = 0; k < EACH; k++) {
			x = x * 1664525u + 1013904223u;
			word[k] = trie_root(image, x);
		}
		for (int k = 0; k < EACH; k++)
			sum ^= word[k];
	}
	use(sum, unused);
}

/* A limit: n words are read, 16 bytes at a time, and nothing is done with them. */
KERNEL __launch_bounds__(THREADS) read_words(const uint32_t *words, uint32_t n, uint32_t *unused)
{
	uint32_t sum = 0;

	for (uint32_t i = block_index() * THREADS + thread_index(); i < n / 4; i += block_count() * THREADS)
		sum ^= host_load128(words + 4 * (uint64_t)i).w[0];
	use(sum, unused);
}
