/* shim: runs the code around decide for one packet after another, without warps. */
#define HOT_ENTRIES 64 /* as forward.cu */

#include "shim.h"

#define SHARERS 32 /* packets per snapshot */

static struct result run(struct tables t, struct snapshot s, struct frame f, uint8_t *umem)
{
	uint8_t *body = umem + f.addr;
	uint32_t header[HEADER_BYTES / 4], to[REWRITTEN_WORDS];

	memcpy(header, body - 2, sizeof header);
	for (;;) {
		struct decision d = decide(&t, s, f, body, header, to);
		int forwarded = d.result.verdict >> 12 == ACTION_FORWARD;
		uint8_t *start = forwarded ? umem + d.result.addr : body;
		if (f.addr % 16 == 2) /* whole words, with 2 bytes in front of the frame */
			memcpy(start - 2, to, sizeof to);
		else if (forwarded)
			memcpy(start, (uint8_t *)to + 2, sizeof to - 2);
		if (d.generation == s.generation)
			return d.result;
		t.hot = NULL;
		s = take_snapshot(&t);
	}
}

int main(void)
{
	uint8_t *base = map_shared();
	if (!base)
		return 1;
	const struct memory *s = (const void *)base;
	struct hot_entries hot;
	struct tables t = tables_in(base);
	struct snapshot snapshot = {0, NULL, NULL};
	const struct frame *in = (const void *)(base + s->in);
	struct result *out = (void *)(base + s->out);

	t.hot = &hot;
	for (uint32_t n; fread(&n, sizeof n, 1, stdin) == 1; ) {
		for (uint32_t i = 0; i < n; i++) {
			if (i % SHARERS == 0) {
				snapshot = take_snapshot(&t);
				for (uint32_t k = 0; k < HOT_ENTRIES; k++) {
					hot.next_hops[k] = load64(&t.next_hops[k]);
					hot.adjacencies[k] = load64(&t.adjacencies[k]);
				}
				for (uint32_t k = 0; k < HOT_PORTS; k++) {
					hot.ports[k] = load64(&t.ports[k]);
					hot.ingress[k] = load32(&t.ingress[k]);
				}
			}
			out[i] = run(t, snapshot, in[i], base + s->umem);
		}
		if (fwrite(&n, sizeof n, 1, stdout) != 1 || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
