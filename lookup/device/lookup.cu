/* Longest-prefix-match lookups of address columns with the router's trie code and loads. Included
 * by the kernels of bench/gpulookup and, for the host, by their fake driver. */
#include "../../dataplane/gpu/kernel/device.h"
#if ON_DEVICE
#include "../../dataplane/gpu/kernel/warp.h"
#define KERNEL extern "C" __global__ void
#define SHARED __shared__
#else
#include "testdata/host.h"
#endif
#if ON_DEVICE && defined(NONCOHERENT) /* bench/gpulookup/noncoherent.cu */
DEVICE uint32_t load_noncoherent(const uint32_t *p)
{
	uint32_t v;
	asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}
#undef TRIE_LOAD
#define TRIE_LOAD(p) load_noncoherent(p)
#endif
#include "../trie/trie.h"
#include "layout.h"

/* Address columns in host byte order, in device or host memory. Adjacent threads access them in
 * 16-byte vectors. */
struct columns {
	const uint32_t *image;     /* NULL: no lookups and undefined results, to measure transfers */
	const uint32_t *addresses; /* IPv4: 32 bits each; IPv6: the upper 64 bits of each */
	const uint64_t *lowers;    /* IPv6: the lower 64 bits of each, read if the upper ones do not decide */
	uint32_t *hops;            /* results: 32 bits each, 0 for no route */
};

CHECK_COLUMNS_LAYOUT;

/* Converts final trie words to next hops. The default route's word is loaded after them, as in a
 * single lookup. */
DEVICE void next_hops(const uint32_t *image, uint32_t word[LOOKUPS_PER_THREAD])
{
	uint32_t missing = 0, default_word = 0;

	for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
		missing |= !(word[k] & TRIE_NEXT_HOP_MASK);
	if (missing)
		default_word = load32(&image[TRIE_DEFAULT]);
	for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
		word[k] = (word[k] & TRIE_NEXT_HOP_MASK ? word[k] : default_word) & TRIE_NEXT_HOP_MASK;
}

/* Looks up 8 IPv4 addresses: two vectors, step vectors apart. */
DEVICE void look_up4(const struct columns *c, uint32_t at, uint32_t step)
{
	struct words4 in[LOOKUPS_PER_THREAD / 4];
	uint32_t word[LOOKUPS_PER_THREAD];

	for (int v = 0; v < LOOKUPS_PER_THREAD / 4; v++)
		in[v] = host_load128(c->addresses + 4 * (uint64_t)(at + v * step));
	if (c->image) {
		for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
			word[k] = trie_root(c->image, in[k / 4].w[k % 4]);
		for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
			if (word[k] & TRIE_REFERENCE)
				word[k] = trie_next(c->image, word[k], in[k / 4].w[k % 4]);
		next_hops(c->image, word);
		for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
			in[k / 4].w[k % 4] = word[k];
	}
	for (int v = 0; v < LOOKUPS_PER_THREAD / 4; v++)
		host_store128(c->hops + 4 * (uint64_t)(at + v * step), in[v]);
}

/* Looks up 8 IPv6 addresses: four vectors of two addresses, step vectors apart. */
DEVICE void look_up6(const struct columns *c, uint32_t at, uint32_t step)
{
	uint32_t high[LOOKUPS_PER_THREAD], low[LOOKUPS_PER_THREAD], word[LOOKUPS_PER_THREAD];

	for (int v = 0; v < LOOKUPS_PER_THREAD / 2; v++) {
		struct words4 in = host_load128(c->addresses + 4 * (uint64_t)(at + v * step));
		for (int k = 0; k < 2; k++) {
			low[2 * v + k] = word[2 * v + k] = in.w[2 * k];
			high[2 * v + k] = in.w[2 * k + 1];
		}
	}
	if (c->image) {
		for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
			word[k] = trie_root(c->image, high[k]);
		for (int bit = TRIE_ROOT_BITS; bit < 64; bit += TRIE_NODE_BITS)
			for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
				if (word[k] & TRIE_REFERENCE)
					word[k] = trie_next(c->image, word[k], bit < 32 ? high[k] : low[k] >> (64 - TRIE_NODE_BITS - bit));
		for (int k = 0; k < LOOKUPS_PER_THREAD; k++) {
			if (!(word[k] & TRIE_REFERENCE))
				continue;
			uint64_t rest = host_load64(&c->lowers[2 * (uint64_t)(at + k / 2 * step) + k % 2]);
			PRAGMA_UNROLL_1 for (int bit = 64; word[k] & TRIE_REFERENCE && bit < 128; bit += TRIE_NODE_BITS)
				word[k] = trie_next(c->image, word[k], (uint32_t)(rest >> (128 - TRIE_NODE_BITS - bit)));
		}
		next_hops(c->image, word);
	}
	for (int v = 0; v < LOOKUPS_PER_THREAD / 2; v++)
		host_store64((uint64_t *)c->hops + at + v * step, word[2 * v] | (uint64_t)word[2 * v + 1] << 32);
}

/* Looks up the n addresses from first on, as one of several blocks. first and n are multiples of
 * threads * LOOKUPS_PER_THREAD. Retries if the trie's generation changed (seqlock). */
DEVICE void look_up(const struct columns *c, int ipv6, uint32_t first, uint32_t n, uint32_t block,
		    uint32_t blocks, uint32_t threads)
{
	SHARED uint32_t generation, again;
	uint32_t per_vector = ipv6 ? 2 : 4, watch = c->image && threadIdx.x == 0;

	do {
		if (watch) {
			generation = load32(&c->image[TRIE_GENERATION]);
			fence_acq_rel_gpu();
		}
		__syncthreads();
		for (uint32_t done = block * threads * LOOKUPS_PER_THREAD; done < n; done += blocks * threads * LOOKUPS_PER_THREAD) {
			uint32_t at = (first + done) / per_vector + threadIdx.x;
			if (ipv6)
				look_up6(c, at, threads);
			else
				look_up4(c, at, threads);
		}
		__syncthreads();
		if (watch) {
			fence_acq_rel_gpu();
			again = load32(&c->image[TRIE_GENERATION]) != generation;
		}
		__syncthreads();
	} while (c->image && again);
}

/* Entry kernels. Grid: any. Block: 256 threads. Shared memory: 8 bytes, static. PCIe payload bytes
 * per address with columns in host memory: IPv4 reads 4, writes 4; IPv6 reads 8 (16 for a match
 * longer than /64), writes 4. */
KERNEL __launch_bounds__(THREADS) lookup4(struct columns c, uint32_t first, uint32_t n)
{
	look_up(&c, 0, first, n, blockIdx.x, gridDim.x, THREADS);
}

KERNEL __launch_bounds__(THREADS) lookup6(struct columns c, uint32_t first, uint32_t n)
{
	look_up(&c, 1, first, n, blockIdx.x, gridDim.x, THREADS);
}
