/* shim: a block of threads for machines without a GPU. It does for each packet, one
 * after another, what the kernels do around decide.
 *
 * Descriptor 3 is memory shared with the test: a struct shared, then what its offsets
 * say; the UMEM is last, so that nothing can be touched behind it. The test writes the
 * number of frames of a chunk (4 bytes) to standard input, and is written it back on
 * standard output when their results are there. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kernel/decide.h"

struct shared {
	uint64_t ipv4, ipv6, next_hops, groups, adjacencies, ports, repair, in, out, umem; /* offsets */
	uint32_t seed, turns;
};

_Static_assert(sizeof(struct frame) == 8, "frame");
_Static_assert(sizeof(struct result) == 8, "result");

#define WARP 32 /* packets that have a snapshot in common */

static struct result run(struct tables t, struct snapshot s, struct frame f, uint8_t *umem)
{
	uint8_t *body = umem + f.addr;
	uint32_t head[HEAD_LEN / 4], to[HEAD_REWRITTEN];

	memcpy(head, body - 2, sizeof head);
	for (;;) {
		struct decision d = decide(&t, s, f, body, head, to);
		if (f.addr % 16 == 2) /* whole words, with 2 bytes that are not the frame's */
			memcpy(body - 2, to, sizeof to);
		else if (d.result.verdict >> 12 == ACTION_FORWARD)
			memcpy(body, (uint8_t *)to + 2, sizeof to - 2);
		if (d.turns == s.turns)
			return d.result;
		t.near = NULL;
		s = take_snapshot(&t);
	}
}

int main(void)
{
	struct stat st;
	if (fstat(3, &st) < 0) {
		fprintf(stderr, "shim: find the size of shared memory: %s\n", strerror(errno));
		return 1;
	}
	uint8_t *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
	if (base == MAP_FAILED) {
		fprintf(stderr, "shim: map %lld bytes of shared memory: %s\n", (long long)st.st_size, strerror(errno));
		return 1;
	}
	const struct shared *s = (const void *)base;
	const uint64_t ipv4 = (uintptr_t)(base + s->ipv4), ipv6 = (uintptr_t)(base + s->ipv6);
	struct nearby near;
	const struct tables t = {
		.ipv4 = &ipv4,
		.ipv6 = &ipv6,
		.next_hops = (const void *)(base + s->next_hops),
		.groups = (const void *)(base + s->groups),
		.adjacencies = (const void *)(base + s->adjacencies),
		.ports = (const void *)(base + s->ports),
		.repair = (const void *)(base + s->repair),
		.turns = &s->turns,
		.seed = s->seed,
		.near = &near,
	};
	struct snapshot snapshot = {0, NULL, NULL};
	const struct frame *in = (const void *)(base + s->in);
	struct result *out = (void *)(base + s->out);

	for (uint32_t n; fread(&n, sizeof n, 1, stdin) == 1; ) {
		for (uint32_t i = 0; i < n; i++) {
			if (i % WARP == 0) {
				snapshot = take_snapshot(&t);
				for (uint32_t k = 0; k < NEARBY; k++) {
					near.next_hops[k] = load64(&t.next_hops[k]);
					near.adjacencies[k] = load64(&t.adjacencies[k]);
					near.ports[k] = load64(&t.ports[k]);
				}
			}
			out[i] = run(t, snapshot, in[i], base + s->umem);
		}
		if (fwrite(&n, sizeof n, 1, stdout) != 1 || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
