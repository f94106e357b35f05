/* Longest-prefix matches of columns of addresses, by the walks and with the loads of
 * the router's own kernels. */
#include "../../dataplane/gpu/kernel/device.h"
#if ON_DEVICE
#include "../../dataplane/gpu/kernel/warp.h"
#define KERNEL extern "C" __global__ void
#define SHARED __shared__
#define ROLLED _Pragma("unroll 1")
#else
#include "testdata/host.h"
#endif
#if ON_DEVICE && defined(AT_REST) /* see bench/gpulookup/at_rest.cu */
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

#define THREADS 256 /* of a block that was launched */
#define EACH 8      /* addresses that a thread looks up together, all their loads under way at a time */

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
