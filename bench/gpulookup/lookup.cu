/* The benchmark's kernels: longest-prefix matches of columns of addresses, by the
 * walks and with the loads of the router's own kernels. */
#include "../../dataplane/gpu/kernel/device.h"
#if ON_DEVICE
#include "../../dataplane/gpu/kernel/warp.h"
#define KERNEL extern "C" __global__ void
#define SHARED __shared__
#define ROLLED _Pragma("unroll 1")
#else
#include "testdata/host.h"
#endif
#if ON_DEVICE && defined(AT_REST) /* see at_rest.cu */
DEVICE uint32_t load_at_rest(const uint32_t *p)
{
	uint32_t v;
	asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}
#undef TRIE_LOAD
#define TRIE_LOAD(p) load_at_rest(p)
#endif
#include "../../lookup/trie/trie.h"

#define THREADS 256           /* of a block that was launched */
#define RESIDENT_THREADS 1024 /* of a block that stays */
#define EACH 8                /* addresses that a thread looks up together, all their loads under way at a time */
#define STOP 0xffffffffu      /* as the number of a chunk: the block is to end */

/* Numbers are in host byte order. Columns are in the device's memory or the
 * host's; vectors of 16 bytes are read and written by neighbouring threads. */
struct columns {
	const uint32_t *image;     /* 0: no lookups, results are anything; to measure the way there and back */
	const uint32_t *addresses; /* IPv4: 32 bits each; IPv6: the upper 64 bits of each */
	const uint64_t *lowers;    /* IPv6: the lower 64 bits of each, read for those that the upper do not decide */
	uint32_t *hops;            /* the results: 32 bits each, 0 for no route */
};

/* Turns the words that walks ended at into next hops. The default route's word is
 * read after them, as if each lookup read it for itself. */
DEVICE void next_hops(const uint32_t *image, uint32_t word[EACH])
{
	uint32_t missing = 0, otherwise = 0;

	for (int k = 0; k < EACH; k++)
		missing |= !(word[k] & TRIE_NEXT_HOP_MASK);
	if (missing)
		otherwise = load32(&image[TRIE_DEFAULT]);
	for (int k = 0; k < EACH; k++)
		word[k] = (word[k] & TRIE_NEXT_HOP_MASK ? word[k] : otherwise) & TRIE_NEXT_HOP_MASK;
}

/* Looks up 8 addresses: 2 vectors, the first at a place in the column, the
 * second step vectors further. */
DEVICE void look_up4(const struct columns *c, uint32_t at, uint32_t step)
{
	struct words4 in[EACH / 4];
	uint32_t word[EACH];

	for (int v = 0; v < EACH / 4; v++)
		in[v] = host_load128(c->addresses + 4 * (uint64_t)(at + v * step));
	if (c->image) {
		for (int k = 0; k < EACH; k++)
			word[k] = trie_root(c->image, in[k / 4].w[k % 4]);
		for (int k = 0; k < EACH; k++)
			if (word[k] & TRIE_REFERENCE)
				word[k] = trie_next(c->image, word[k], in[k / 4].w[k % 4]);
		next_hops(c->image, word);
		for (int k = 0; k < EACH; k++)
			in[k / 4].w[k % 4] = word[k];
	}
	for (int v = 0; v < EACH / 4; v++)
		host_store128(c->hops + 4 * (uint64_t)(at + v * step), in[v]);
}

/* The same for IPv6, with two addresses in a vector: 4 vectors. */
DEVICE void look_up6(const struct columns *c, uint32_t at, uint32_t step)
{
	uint32_t high[EACH], low[EACH], word[EACH];

	for (int v = 0; v < EACH / 2; v++) {
		struct words4 in = host_load128(c->addresses + 4 * (uint64_t)(at + v * step));
		for (int k = 0; k < 2; k++) {
			low[2 * v + k] = word[2 * v + k] = in.w[2 * k];
			high[2 * v + k] = in.w[2 * k + 1];
		}
	}
	if (c->image) {
		for (int k = 0; k < EACH; k++)
			word[k] = trie_root(c->image, high[k]);
		for (int bit = TRIE_ROOT_BITS; bit < 64; bit += TRIE_GROUP_BITS)
			for (int k = 0; k < EACH; k++)
				if (word[k] & TRIE_REFERENCE)
					word[k] = trie_next(c->image, word[k], bit < 32 ? high[k] : low[k] >> (64 - TRIE_GROUP_BITS - bit));
		for (int k = 0; k < EACH; k++) {
			if (!(word[k] & TRIE_REFERENCE))
				continue;
			uint64_t rest = host_load64(&c->lowers[2 * (uint64_t)(at + k / 2 * step) + k % 2]);
			ROLLED for (int bit = 64; word[k] & TRIE_REFERENCE && bit < 128; bit += TRIE_GROUP_BITS)
				word[k] = trie_next(c->image, word[k], (uint32_t)(rest >> (128 - TRIE_GROUP_BITS - bit)));
		}
		next_hops(c->image, word);
	}
	for (int v = 0; v < EACH / 2; v++)
		host_store64((uint64_t *)c->hops + at + v * step, word[2 * v] | (uint64_t)word[2 * v + 1] << 32);
}

/* Looks up the n addresses from first on, with one of several blocks. Both are
 * multiples of what a block does at a time, threads * EACH. If groups of the table
 * began another life meanwhile, the answers are void, and the block looks again. */
DEVICE void look_up(const struct columns *c, int ipv6, uint32_t first, uint32_t n, uint32_t block, uint32_t blocks, uint32_t threads)
{
	SHARED uint32_t reuses, again;
	uint32_t per_vector = ipv6 ? 2 : 4, watch = c->image && thread_index() == 0;

	do {
		if (watch) {
			reuses = load32(&c->image[TRIE_REUSES]);
			fence_device();
		}
		join_block();
		for (uint32_t done = block * threads * EACH; done < n; done += blocks * threads * EACH) {
			uint32_t at = (first + done) / per_vector + thread_index();
			if (ipv6)
				look_up6(c, at, threads);
			else
				look_up4(c, at, threads);
		}
		join_block();
		if (watch) {
			fence_device();
			again = load32(&c->image[TRIE_REUSES]) != reuses;
		}
		join_block();
	} while (c->image && again);
}

/* Launched kernels: any number of blocks look up the n addresses from first on. */
KERNEL __launch_bounds__(THREADS) lookup4(struct columns c, uint32_t first, uint32_t n)
{
	look_up(&c, 0, first, n, block_index(), block_count(), THREADS);
}

KERNEL __launch_bounds__(THREADS) lookup6(struct columns c, uint32_t first, uint32_t n)
{
	look_up(&c, 1, first, n, block_index(), block_count(), THREADS);
}

#ifndef AT_REST

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

#endif
