/* Common code of the shims. Included by all but reuse.c.
 *
 * Descriptor 3 is memory shared with the test: a struct memory, then the regions at its offsets. The
 * UMEM is last, so that an overrun faults. The test writes a chunk's number of frames (4 bytes) to
 * standard input, and reads it back from standard output when the results are ready. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kernel/decide.h"
#include "layout.h"

struct memory {
	uint64_t ipv4, ipv6, next_hops, groups, adjacencies, ports, ingress, partial_checksums, jobs, keys, policies, spis, seqs, tunnels, now_serving, slot, in, out, umem; /* offsets */
	uint64_t umem_bytes;
	uint32_t seed, generation;
};

CHECK_MEMORY_LAYOUT;

static uint8_t *map_shared(void)
{
	struct stat st;
	if (fstat(3, &st) < 0) {
		fprintf(stderr, "shim: find the size of shared memory: %s\n", strerror(errno));
		return NULL;
	}
	uint8_t *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
	if (base == MAP_FAILED) {
		fprintf(stderr, "shim: map %lld bytes of shared memory: %s\n", (long long)st.st_size, strerror(errno));
		return NULL;
	}
	return base;
}

static struct tables tables_in(const uint8_t *base)
{
	static uint64_t ipv4, ipv6;
	const struct memory *s = (const void *)base;

	ipv4 = (uintptr_t)(base + s->ipv4);
	ipv6 = (uintptr_t)(base + s->ipv6);
	return (struct tables){
		.ipv4 = &ipv4,
		.ipv6 = &ipv6,
		.next_hops = (const void *)(base + s->next_hops),
		.groups = (const void *)(base + s->groups),
		.adjacencies = (const void *)(base + s->adjacencies),
		.ports = (const void *)(base + s->ports),
		.ingress = (const void *)(base + s->ingress),
		.partial_checksums = (const void *)(base + s->partial_checksums),
		.generation = &s->generation,
		.seed = s->seed,
	};
}
