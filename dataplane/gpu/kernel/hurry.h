/* Chunks in a hurry: heads of packets come by the mailbox, and answers go by it. */
#ifndef WARPROUTE_HURRY_H
#define WARPROUTE_HURRY_H

#include "quad.h"

/* Whose half of a head a lane reads as its part i, and which 16 bytes of it. */
DEVICE uint32_t whose_half(uint32_t i) { return i * 16 + lane_index() / 2; }
DEVICE uint32_t which_half(void) { return lane_index() % 2; }

/* Reads what heads there may be of a quad, as whole ones or as HALVES. */
DEVICE struct share read_heads(const struct mailbox *m, const uint8_t *slot, uint32_t quad, uint32_t as)
{
	struct share h;
	if (as == HALVES) {
		UNROLL
		for (uint32_t i = 0; i < 2; i++) {
			h.parts[i] = (struct words4){{0, 0, 0, 0}};
			if (whose_half(i) % UNIT_LANES != 0)
				h.parts[i] = host_load128(slot + m->halves + (quad * WARP + whose_half(i)) * HALF_LEN + which_half() * 16);
		}
		return h;
	}
	UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		h.parts[i] = (struct words4){{0, 0, 0, 0}};
		if (whose(i) % UNIT_LANES != 0)
			h.parts[i] = host_load128(slot + m->heads + (quad * WARP + whose(i)) * HEAD_LEN + which() * 16);
	}
	return h;
}

/* Tells whether all heads that a quad needs are of the chunk seq. */
DEVICE int are_of(const struct share *h, uint32_t as, uint32_t seq, int valid)
{
	uint32_t right = 1, want = tag_of(seq);
	if (as == HALVES) {
		UNROLL
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t tag = shuffle(h->parts[i].w[0], lane_index() & ~1u) & 0xffff;
			right &= !shuffle(valid, whose_half(i)) | (tag == want);
		}
		return all_of_warp(right);
	}
	UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t tag = shuffle(h->parts[i].w[0], lane_index() & ~3u) & 0xffff;
		right &= !shuffle(valid, whose(i)) | (tag == want);
	}
	return all_of_warp(right);
}

/* Lays heads out, for each lane to use when it has joined. */
DEVICE void lay_out_heads(struct desk *desk, const struct share *h, uint32_t as)
{
	if (as != HALVES) {
		lay_out(desk, h);
		return;
	}
	UNROLL
	for (uint32_t i = 0; i < 2; i++)
		UNROLL
		for (uint32_t k = 0; k < 4; k++)
			desk->heads[whose_half(i)][HALF_AT + which_half() * 4 + k] = h->parts[i].w[k];
}

/* Makes the answer for a packet out of what was decided, and of the first words of its
 * head as they are to be. */
DEVICE void make_answer(const struct result *r, uint32_t tag, uint32_t turns, uint32_t *to)
{
	if (r->verdict >> 12 != ACTION_FORWARD) {
		to[0] = r->addr << 16;
		to[1] = r->addr >> 16;
	}
	to[0] = (to[0] & 0xffff0000) | tag;
	to[3] = (to[3] & 0xffff) | (uint32_t)r->verdict << 16;
	to[4] = tag | (uint32_t)r->len << 16;
	to[7] = turns;
}

/* Works off a quad whose heads came along, and answers. It tells whether it has: not where
 * a frame is to be changed behind its head. */
DEVICE int answer(const struct mailbox *m, struct desk *desk, struct snapshot s, uint8_t *slot, uint32_t seq, uint32_t quad, struct word w, int due)
{
	uint32_t lane = lane_index(), part = lane % 2;
	uint32_t *row = desk->rewritten[lane];
	struct frame f = {w.low, (uint16_t)w.high, (uint16_t)(w.high >> 16)};
	struct tables t = m->tables;
	int more = 0;

	t.near = &desk->near;
	if (due) {
		struct choice c = look(&t, s, f, m->umem + f.addr, desk->heads[lane]);
		more = c.repair && c.result.verdict >> 12 == ACTION_FORWARD;
		rewrite(&c, desk->heads[lane], row);
		make_answer(&c.result, tag_of(seq), s.turns, row);
	}
	if (SELDOM(!all_of_warp(!more)))
		return 0;
	join_warp();
	UNROLL
	for (uint32_t i = 0; i < 2; i++) { /* two lanes an answer, so that they leave in whole lines */
		uint32_t from = i * 16 + lane / 2;
		struct words4 v;
		if (!shuffle(due, from))
			continue;
		for (uint32_t k = 0; k < 4; k++)
			v.w[k] = desk->rewritten[from][part * 4 + k];
		host_store128(slot + m->answers + (quad * WARP + from) * ANSWER_BYTES + part * 16, v);
	}
	join_warp();
	return 1;
}

#endif
