/* hurry: a warp for machines without a GPU, which works off the quads of a chunk with heads
 * as a block of the resident kernel does. The chunk's size, with what it says of heads, is
 * in the slot. */
#define NEARBY 64 /* as forward.cu */
#include "shim.h"

#include "../kernel/hurry.h"
#include "lanes.h"

static struct mailbox mailbox;
static struct desk desk;
static uint8_t *slot;
static uint32_t quad;

static void lane(void)
{
	struct word w;
	uint32_t seq = (uint32_t)*(const uint64_t *)(slot + mailbox.quads);

	if (!read_quad((const uint64_t *)(slot + mailbox.quads), quad, seq, &w)) {
		fprintf(stderr, "hurry: quad %u is not of chunk %u\n", quad, seq);
		exit(1);
	}
	uint32_t size = shuffle(w.high, 0), as = size & (HEADS | HALVES), answered = 0;
	int due = is_packet(quad, size_of(size));
	if (as) {
		struct preview p = take_preview(&mailbox.tables, load32(mailbox.tables.turns));
		struct share h = read_heads(&mailbox, slot, quad, as);
		if (are_of(&h, as, seq, due)) {
			lay_out_tables(&desk, &p);
			lay_out_heads(&desk, &h, as);
			join_warp();
			answered = answer(&mailbox, &desk, p.s, slot, seq, quad, w, due);
		}
	}
	if (!answered) {
		struct snapshot s = fetch(&mailbox, &desk, w, due);
		work(&mailbox, &desk, s, slot, quad, w, mailbox.umem + w.low, due, IN_LINES);
		if (running == 0)
			host_store32((uint32_t *)slot + quad, seq);
	}
	end_lane();
}

int main(int argc, char **argv)
{
	uint8_t *base = map_shared();
	if (!base || argc != 6)
		return 1;
	const struct memory *s = (const void *)base;
	slot = base + s->slot;
	mailbox = (struct mailbox){
		.results = (uint32_t)atoi(argv[1]), .quads = (uint32_t)atoi(argv[2]), .heads = (uint32_t)atoi(argv[3]),
		.halves = (uint32_t)atoi(argv[4]), .answers = (uint32_t)atoi(argv[5]),
		.umem_bytes = (uint32_t)s->umem_bytes, .umem = base + s->umem, .tables = tables_in(base),
	};
	for (uint32_t n; fread(&n, sizeof n, 1, stdin) == 1; ) {
		for (quad = 0; quad < quads_of(n); quad++)
			run_lanes(lane);
		if (fwrite(&n, sizeof n, 1, stdout) != 1 || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
