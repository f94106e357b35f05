/* shim: a block of threads for machines without a GPU. It does for each packet, one
 * after another, what the kernels do around decide. */
#define NEARBY 64 /* as forward.cu */

#include "shim.h"

_Static_assert(sizeof(struct frame) == 8, "frame");
_Static_assert(sizeof(struct result) == 8, "result");

#define SHARERS 32 /* packets that have a snapshot in common */

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
	uint8_t *base = map_shared();
	if (!base)
		return 1;
	const struct memory *s = (const void *)base;
	struct nearby near;
	struct tables t = tables_in(base);
	struct snapshot snapshot = {0, NULL, NULL};
	const struct frame *in = (const void *)(base + s->in);
	struct result *out = (void *)(base + s->out);

	t.near = &near;
	for (uint32_t n; fread(&n, sizeof n, 1, stdin) == 1; ) {
		for (uint32_t i = 0; i < n; i++) {
			if (i % SHARERS == 0) {
				snapshot = take_snapshot(&t);
				for (uint32_t k = 0; k < NEARBY; k++) {
					near.next_hops[k] = load64(&t.next_hops[k]);
					near.adjacencies[k] = load64(&t.adjacencies[k]);
				}
				for (uint32_t k = 0; k < NEAR_PORTS; k++) {
					near.ports[k] = load64(&t.ports[k]);
					near.reverse_paths[k] = load32(&t.reverse_paths[k]);
				}
			}
			out[i] = run(t, snapshot, in[i], base + s->umem);
		}
		if (fwrite(&n, sizeof n, 1, stdout) != 1 || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
