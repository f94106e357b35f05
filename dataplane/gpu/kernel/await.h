/* How the warps of a block wait for a chunk, WARPS of them. */
#ifndef WARPROUTE_AWAIT_H
#define WARPROUTE_AWAIT_H

#include "hurry.h"

struct shared {
	struct desk desks[WARPS];
	/* Of the chunk that the first warp has seen last; the one before stays until all warps
	 * have taken note of this one. */
	uint32_t size[2];
};

/* Polling costs PCIe bandwidth: a block whose chunks come in quick succession has a
 * warp at each quad, others have their first warp look ever more seldom. */
#define EAGER 100    /* looks in vain, of some microsecond each, before a block rests */
#define LONG_REST 2000 /* ns */

/* What a block looks out for: how many quads the chunk before had, and whether their heads
 * came along: 0, HEADS or HALVES. */
struct outlook {
	uint32_t quads, heads;
};

DEVICE struct outlook outlook_of(uint32_t size) { return (struct outlook){quads_of(size_of(size)), size & (HEADS | HALVES)}; }

/* What a warp has seen of a chunk. */
struct sight {
	int quad;     /* its own: w is of it, */
	struct word w;
	int laid_out; /* and its packets are on the desk, with this snapshot, */
	struct snapshot s;
	int answered; /* and have been worked off */
};

/* Looks once for a quad of the chunk seq, and for its heads where they may come along, as
 * HEADS or HALVES; then what lookups begin with is taken meanwhile. *turns is of before, and
 * of now after. */
DEVICE void look_for(const struct mailbox *m, struct shared *sh, const uint8_t *slot, uint32_t seq, uint32_t heads, uint32_t *turns, struct sight *see)
{
	uint32_t quad = warp_index(), later = *turns;
	struct share h;
	struct preview p;

	if (heads) {
		later = load32(m->tables.turns);
		p = take_preview(&m->tables, *turns);
	}
	uint64_t v = host_load64((const uint64_t *)(slot + m->quads) + quad * WARP + lane_index());
	if (heads)
		h = read_heads(m, slot, quad, heads);
	*turns = later;
	see->w.low = (uint32_t)v;
	see->w.high = (uint32_t)(v >> 32);
	if (!all_of_warp(shuffle(see->w.low, lane_index() & ~(UNIT_LANES - 1)) == seq))
		return;
	uint32_t size = shuffle(see->w.high, 0);
	see->quad = 1;
	if (quad == 0 && lane_index() == 0)
		sh->size[seq % 2] = size;
	if (heads && size != STOP && size & heads && are_of(&h, heads, seq, is_packet(quad, size_of(size)))) {
		lay_out_tables(&sh->desks[quad], &p);
		lay_out_heads(&sh->desks[quad], &h, heads);
		join_warp();
		see->laid_out = 1;
		see->s = p.s;
	}
}

/* Looks once for a quad, and works it off if its heads came along. */
DEVICE void look_once(const struct mailbox *m, struct shared *sh, uint8_t *slot, uint32_t seq, uint32_t heads, uint32_t *turns, struct sight *see)
{
	uint32_t quad = warp_index();

	if (heads == HALVES) /* each with the registers that it takes */
		look_for(m, sh, slot, seq, HALVES, turns, see);
	else if (heads == HEADS)
		look_for(m, sh, slot, seq, HEADS, turns, see);
	else
		look_for(m, sh, slot, seq, 0, turns, see);
	if (see->laid_out)
		see->answered = answer(m, &sh->desks[quad], see->s, slot, seq, quad, see->w, is_packet(quad, size_of(shuffle(see->w.high, 0))));
}

/* Waits for the chunk seq. All warps look at once, so that none is late by a look. */
DEVICE struct sight await(const struct mailbox *m, struct shared *sh, uint8_t *slot, uint32_t seq, struct outlook o)
{
	struct sight see = {0, {0, 0}, 0, {0, 0, 0}, 0};
	uint32_t warp = warp_index(), turns = load32(m->tables.turns);

	for (uint32_t looks = 0;; looks++) {
		int eager = looks < EAGER;
		if (!see.quad && (warp == 0 || (eager && warp < o.quads)))
			look_once(m, sh, slot, seq, eager && warp < HEAD_QUADS ? o.heads : 0, &turns, &see);
		if (any_of_block(warp == 0 && see.quad))
			return see;
		if (!eager)
			rest(LONG_REST);
	}
}

#endif
