/* A quad of packets, by a warp, a lane each: reading their heads from the host's
 * memory, deciding on them, and writing back what changed. */
#ifndef WARPROUTE_QUAD_H
#define WARPROUTE_QUAD_H

#include "decide.h"
#include "mailbox.h"
#include "warp.h"

/* Rows of 17 words, so that the threads of a warp, each at a row of its own, use
 * all banks of shared memory. */
#define HEAD_WORDS 17

/* What a warp has of the packets that it works on. */
struct desk {
	struct nearby near;
	uint32_t heads[WARP][HEAD_WORDS];
	uint32_t rewritten[WARP][HEAD_REWRITTEN + 1]; /* in rows for the same reason */
};

/* A lane's word of a quad. */
struct word {
	uint32_t low, high;
};

/* A lane's share of the heads of a quad: 16 bytes, of four of them. */
struct share {
	struct words4 parts[4];
};

/* What lookups begin with, and a lane's share of the base's first words. */
struct preview {
	struct snapshot s;
	uint64_t next_hops[NEARBY / WARP], adjacencies[NEARBY / WARP], port;
	uint32_t reverse_path;
};

DEVICE uint32_t quads_of(uint32_t n) { return (n + QUAD_FRAMES - 1) / QUAD_FRAMES; }

/* Reads a quad and tells whether all of it is of the chunk seq. */
DEVICE int read_quad(const uint64_t *quads, uint32_t quad, uint32_t seq, struct word *w)
{
	uint64_t v = host_load64(quads + quad * WARP + lane_index());
	w->low = (uint32_t)v;
	w->high = (uint32_t)(v >> 32);
	return all_of_warp(shuffle(w->low, lane_index() & ~(UNIT_LANES - 1)) == seq);
}

/* Where the bytes around a frame's header cannot be read 16 at a time. */
DEVICE struct words4 load_bytes(const uint8_t *umem, uint32_t addr, uint32_t len, uint32_t from)
{
	struct words4 v = {{0, 0, 0, 0}};
	UNROLL
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t at = from + i;
		if (addr + at >= 2 && at < len + 2)
			v.w[i / 4] |= (uint32_t)host_load8(umem + addr + at - 2) << i % 4 * 8;
	}
	return v;
}

DEVICE void store_bytes(uint8_t *umem, uint32_t addr, struct words4 v, uint32_t from)
{
	UNROLL
	for (uint32_t i = 0; i < 16; i++)
		if (from + i >= 2)
			host_store8(umem + addr + from + i - 2, (uint8_t)(v.w[i / 4] >> i % 4 * 8));
}

DEVICE int in_line(const struct mailbox *m, uint32_t addr)
{
	return addr % 16 == 2 && addr <= m->umem_bytes - 64;
}

/* Whose head a lane reads as its part i, and which 16 bytes of it: four lanes a frame,
 * so that a frame is one access to the host's memory. */
DEVICE uint32_t whose(uint32_t i) { return i * 8 + lane_index() / 4; }
DEVICE uint32_t which(void) { return lane_index() % 4; }

DEVICE struct share read_frames(const struct mailbox *m, struct word w, int valid)
{
	struct share h;
	UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t addr = shuffle(w.low, whose(i)), len = shuffle(w.high, whose(i)) & 0xffff;
		h.parts[i] = (struct words4){{0, 0, 0, 0}};
		if (!shuffle(valid, whose(i)))
			continue;
		if (MOSTLY(in_line(m, addr)))
			h.parts[i] = host_load128(m->umem + addr - 2 + which() * 16);
		else
			h.parts[i] = load_bytes(m->umem, addr, len, which() * 16);
	}
	return h;
}

/* turns is of before; so all loads can be under way at once. */
DEVICE struct preview take_preview(const struct tables *t, uint32_t turns)
{
	struct preview v;
	v.s = snapshot_at(t, turns);
	uint32_t at = lane_index() + (turns >> 31);
	UNROLL
	for (uint32_t i = 0; i < NEARBY / WARP; i++) {
		v.next_hops[i] = load64(t->next_hops + i * WARP + at);
		v.adjacencies[i] = load64(t->adjacencies + i * WARP + at);
	}
	v.port = load64(t->ports + at);
	v.reverse_path = load32(t->reverse_paths + at);
	return v;
}

/* Lay out what a warp has, for each of its lanes to use when it has joined. */
DEVICE void lay_out_tables(struct desk *desk, const struct preview *v)
{
	uint32_t lane = lane_index();
	UNROLL
	for (uint32_t i = 0; i < NEARBY / WARP; i++) {
		desk->near.next_hops[i * WARP + lane] = v->next_hops[i];
		desk->near.adjacencies[i * WARP + lane] = v->adjacencies[i];
	}
	desk->near.ports[lane] = v->port;
	desk->near.reverse_paths[lane] = v->reverse_path;
}

DEVICE void lay_out(struct desk *desk, const struct share *h)
{
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		UNROLL
		for (uint32_t k = 0; k < 4; k++)
			desk->heads[whose(i)][which() * 4 + k] = h->parts[i].w[k];
}

/* Writes the first 32 bytes of frames, which lie on the desk, two lanes a frame. */
DEVICE void store_in_line(const struct mailbox *m, const struct desk *desk, struct word w, int changed)
{
	join_warp();
	uint32_t part = lane_index() % 2;
	UNROLL
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t from = i * 16 + lane_index() / 2;
		uint32_t addr = shuffle(w.low, from);
		if (!shuffle(changed, from))
			continue;
		struct words4 v;
		for (uint32_t k = 0; k < 4; k++)
			v.w[k] = desk->rewritten[from][part * 4 + k];
		if (MOSTLY(in_line(m, addr)))
			host_store128(m->umem + addr - 2 + part * 16, v);
		else
			store_bytes(m->umem, addr, v, part * 16);
	}
	join_warp();
}

/* The same where frames are in line with words and seldom with more, eight lanes a
 * frame. */
DEVICE void store_in_words(const struct mailbox *m, const struct desk *desk, struct word w, int changed)
{
	join_warp();
	uint32_t part = lane_index() % HEAD_REWRITTEN;
	ROLL
	for (uint32_t i = 0; i < WARP; i += WARP / HEAD_REWRITTEN) {
		uint32_t from = i + lane_index() / HEAD_REWRITTEN;
		uint32_t addr = shuffle(w.low, from);
		if (!shuffle(changed, from))
			continue;
		uint32_t v = desk->rewritten[from][part];
		if (MOSTLY(addr % 4 == 2)) {
			host_store32((uint32_t *)(m->umem + addr - 2) + part, v);
		} else {
			for (uint32_t k = 0; k < 4; k++)
				if (part > 0 || k >= 2)
					host_store8(m->umem + addr + 4 * part + k - 2, (uint8_t)(v >> 8 * k));
		}
	}
	join_warp();
}

/* The same where a lane's frame is at body in shared memory. */
DEVICE void store_on_stage(const struct desk *desk, uint8_t *body, int changed)
{
	UNROLL
	for (uint32_t i = 0; i < HEAD_REWRITTEN; i++)
		if (changed)
			((uint32_t *)(body - 2))[i] = desk->rewritten[lane_index()][i];
	join_warp();
}

/* Where the frames are that a warp works on: in the host's memory, in line with 16 bytes
 * but for few, or with words; or on the warp's stage. */
enum where { IN_LINES, IN_WORDS, ON_STAGE };

DEVICE void store_heads(const struct mailbox *m, const struct desk *desk, struct word w, uint8_t *body, int changed, enum where where)
{
	if (where == ON_STAGE)
		store_on_stage(desk, body, changed);
	else if (where == IN_WORDS)
		store_in_words(m, desk, w, changed);
	else
		store_in_line(m, desk, w, changed);
}

DEVICE uint32_t packet_of(uint32_t quad)
{
	return quad * QUAD_FRAMES + lane_index() / UNIT_LANES * UNIT_FRAMES + lane_index() % UNIT_LANES - 1;
}

DEVICE int is_packet(uint32_t quad, uint32_t n) { return lane_index() % UNIT_LANES != 0 && packet_of(quad) < n; }

DEVICE void store_result(const struct mailbox *m, uint8_t *slot, uint32_t quad, struct result r)
{
	host_store64((uint64_t *)(slot + m->results) + packet_of(quad), r.addr | (uint64_t)r.len << 32 | (uint64_t)r.verdict << 48);
}

/* Works off the packets of a quad that are due and laid out on the desk, a lane each, in
 * the frame at body. Results are on their way to the host before it is known whether the tables changed
 * meanwhile; then others take their place, before anybody is told to look. */
DEVICE void work(const struct mailbox *m, struct desk *desk, struct snapshot s, uint8_t *slot, uint32_t quad, struct word w, uint8_t *body, int due, enum where where)
{
	uint32_t lane = lane_index();
	struct frame f = {w.low, (uint16_t)w.high, (uint16_t)(w.high >> 16)};
	struct tables t = m->tables;
	int changed = 0;

	t.near = &desk->near;
	do {
		struct decision d = {{0, 0, 0}, 0};
		if (due) {
			d = decide(&t, s, f, body, desk->heads[lane], desk->rewritten[lane]);
			store_result(m, slot, quad, d.result);
			changed |= d.result.verdict >> 12 == ACTION_FORWARD;
		}
		store_heads(m, desk, w, body, due && changed, where);
		due = due && d.turns != s.turns;
		if (SELDOM(due)) {
			t.near = 0; /* of the snapshot before */
			s = take_snapshot(&t);
		}
	} while (SELDOM(!all_of_warp(!due)));
}

/* Reads the heads of a quad's packets that are due from their frames. While they are on their way,
 * takes what lookups begin with. (A multiprocessor gives loads back in their order: what
 * is asked for behind something of the host's waits for it.) */
DEVICE struct snapshot fetch(const struct mailbox *m, struct desk *desk, struct word w, int due)
{
	uint32_t turns = load32(m->tables.turns);
	struct share h = read_frames(m, w, due);
	struct preview v = take_preview(&m->tables, turns);
	lay_out_tables(desk, &v);
	lay_out(desk, &h);
	join_warp();
	return v.s;
}

#endif
