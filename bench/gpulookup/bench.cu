/* Benchmark kernels: the launched lookups, resident lookups, and kernels that measure limits. */
#include "../../lookup/device/lookup.cu"
#include "layout.h"

/* Serves a doorbell in host memory until it has STOP. Its lower half is a sequence number, its upper half a chunk
 * number; the block looks up the size addresses of that chunk and writes the sequence number to
 * done.
 *
 * Grid: any; a block per chunk in flight. Block: 1,024 threads. Shared memory: 12 bytes, static.
 * PCIe payload bytes per address with columns in host memory: IPv4 reads 4, writes 4; IPv6 reads 8
 * (16 for a match longer than /64), writes 4. A chunk adds 8 read per poll and 4 written. */
DEVICE void reside(const struct columns *c, int ipv6, uint32_t size, const uint8_t *doorbells, uint8_t *done)
{
	SHARED uint32_t shared;
	const uint64_t *doorbell = (const uint64_t *)(doorbells + blockIdx.x * LINE_BYTES);
	uint32_t *answer = (uint32_t *)(done + blockIdx.x * LINE_BYTES);

	for (uint32_t seq = 1;; seq++) {
		if (threadIdx.x == 0) {
			uint64_t bell;
			do
				bell = host_load64(doorbell);
			while ((uint32_t)bell != seq);
			fence_acq_rel_sys();
			shared = (uint32_t)(bell >> 32);
		}
		__syncthreads();
		uint32_t chunk = shared;
		if (chunk == STOP)
			return;
		look_up(c, ipv6, chunk * size, size, 0, 1, RESIDENT_THREADS);
		__syncthreads();
		if (threadIdx.x == 0) {
			fence_acq_rel_sys();
			host_store32(answer, seq);
		}
	}
}

KERNEL __launch_bounds__(RESIDENT_THREADS) resident4(struct columns c, uint32_t size,
					const uint8_t *doorbells, uint8_t *done)
{
	reside(&c, 0, size, doorbells, done);
}

KERNEL __launch_bounds__(RESIDENT_THREADS) resident6(struct columns c, uint32_t size,
					const uint8_t *doorbells, uint8_t *done)
{
	reside(&c, 1, size, doorbells, done);
}

/* Keeps the compiler from eliminating loads. */
DEVICE void use(uint32_t sum, uint32_t *unused)
{
	if (sum == 0x9e3779b9u)
		*unused = sum;
}

/* Limit: random reads of root words, times * LOOKUPS_PER_THREAD per thread. Grid: any. Block: 256
 * threads. No shared memory, no PCIe traffic. */
KERNEL __launch_bounds__(THREADS) gather(const uint32_t *image, uint32_t times, uint32_t *unused)
{
	uint32_t x = (blockIdx.x * THREADS + threadIdx.x) * 0x9e3779b9u, sum = 0, word[LOOKUPS_PER_THREAD];

	for (uint32_t i = 0; i < times; i++) {
		for (int k = 0; k < LOOKUPS_PER_THREAD; k++) {
			x = x * 1664525u + 1013904223u;
			word[k] = trie_root(image, x);
		}
		for (int k = 0; k < LOOKUPS_PER_THREAD; k++)
			sum ^= word[k];
	}
	use(sum, unused);
}

/* Limit: reads n words in 16-byte loads. Grid: any. Block: 256 threads. No shared memory. PCIe
 * payload: reads 4 * n bytes if words is in host memory. */
KERNEL __launch_bounds__(THREADS) read_words(const uint32_t *words, uint32_t n, uint32_t *unused)
{
	uint32_t sum = 0;

	for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < n / 4; i += gridDim.x * THREADS)
		sum ^= host_load128(words + 4 * (uint64_t)i).w[0];
	use(sum, unused);
}
