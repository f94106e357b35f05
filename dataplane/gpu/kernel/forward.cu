/* The entry kernels: chunks of packets are decided on and rewritten where they
 * lie, in the host's memory. */
#include "decide.h"
#include "mailbox.h"
#include "warp.h"

#define WARPS 16
#define THREADS (WARPS * WARP)

/* Rows of 17 words, so that the threads of a warp, each at a row of its own, use
 * all banks of shared memory. */
#define HEAD_WORDS 17

/* What a warp has of the packets that it works on. */
struct desk {
	struct nearby near;
	uint32_t heads[WARP][HEAD_WORDS];
	uint32_t rewritten[WARP][HEAD_REWRITTEN + 1]; /* in rows for the same reason */
};

struct shared {
	struct desk desks[WARPS];
	/* The chunk that the first warp has seen last, and its size; the one before stays
	 * until all warps have taken note of this one. */
	uint32_t seq[2], size[2];
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
	uint64_t next_hop, adjacency, port;
};

DEVICE uint32_t lane_index(void) { return thread_index() % WARP; }
DEVICE uint32_t warp_index(void) { return thread_index() / WARP; }
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
#pragma unroll
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t at = from + i; /* 2 bytes before the frame are 0 */
		if (at >= 2 && at - 2 < len)
			v.w[i / 4] |= (uint32_t)host_load8(umem + addr + at - 2) << i % 4 * 8;
	}
	return v;
}

DEVICE void store_bytes(uint8_t *umem, uint32_t addr, struct words4 v, uint32_t from)
{
#pragma unroll
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
#pragma unroll
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

/* Reads what heads there may be of a quad. */
DEVICE struct share read_heads(const uint8_t *heads, uint32_t quad)
{
	struct share h;
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		h.parts[i] = (struct words4){{0, 0, 0, 0}};
		if (whose(i) % UNIT_LANES != 0)
			h.parts[i] = host_load128(heads + (quad * WARP + whose(i)) * HEAD_LEN + which() * 16);
	}
	return h;
}

/* Tells whether all heads that a quad needs are of the chunk seq. */
DEVICE int are_of(const struct share *h, uint32_t seq, int valid)
{
	uint32_t right = 1;
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t tag = shuffle(h->parts[i].w[0], lane_index() & ~3u) & 0xffff;
		right &= !shuffle(valid, whose(i)) | (tag == 1 + seq % TAGS);
	}
	return all_of_warp(right);
}

/* turns is of before; so all loads can be under way at once. */
DEVICE struct preview take_preview(const struct tables *t, uint32_t turns)
{
	struct preview v;
	v.s = snapshot_at(t, turns);
	uint32_t at = lane_index() + (turns >> 31);
	v.next_hop = load64(t->next_hops + at);
	v.adjacency = load64(t->adjacencies + at);
	v.port = load64(t->ports + at);
	return v;
}

/* Lays out what a warp has, for each of its lanes to use. */
DEVICE void lay_out(struct desk *desk, const struct share *h, const struct preview *v)
{
	uint32_t lane = lane_index();
	desk->near.next_hops[lane] = v->next_hop;
	desk->near.adjacencies[lane] = v->adjacency;
	desk->near.ports[lane] = v->port;
#pragma unroll
	for (uint32_t i = 0; i < 4; i++)
#pragma unroll
		for (uint32_t k = 0; k < 4; k++)
			desk->heads[whose(i)][which() * 4 + k] = h->parts[i].w[k];
	join_warp();
}

/* Writes the first 32 bytes of frames, which lie on the desk, two lanes a frame. */
DEVICE void store_heads(const struct mailbox *m, const struct desk *desk, struct word w, int changed)
{
	join_warp();
	uint32_t part = lane_index() % 2;
#pragma unroll
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

DEVICE uint32_t packet_of(uint32_t quad)
{
	return quad * QUAD_FRAMES + lane_index() / UNIT_LANES * UNIT_FRAMES + lane_index() % UNIT_LANES - 1;
}

DEVICE int is_packet(uint32_t quad, uint32_t n) { return lane_index() % UNIT_LANES != 0 && packet_of(quad) < n; }

/* Works off the packets of a quad that is laid out on the desk, a lane each. Results are
 * on their way to the host before it is known whether the tables changed meanwhile; then
 * others take their place, before anybody is told to look. */
DEVICE void work(const struct mailbox *m, struct desk *desk, struct snapshot s, uint8_t *slot, uint32_t quad, struct word w, uint32_t n)
{
	uint32_t lane = lane_index();
	struct frame f = {w.low, (uint16_t)w.high, (uint16_t)(w.high >> 16)};
	struct tables t = m->tables;
	int due = is_packet(quad, n), changed = 0;

	t.near = &desk->near;
	do {
		struct decision d = {{0, 0, 0}, 0};
		if (due) {
			d = decide(&t, s, f, m->umem + f.addr, desk->heads[lane], desk->rewritten[lane]);
			struct result r = d.result;
			host_store64((uint64_t *)(slot + m->results) + packet_of(quad), r.addr | (uint64_t)r.len << 32 | (uint64_t)r.verdict << 48);
			changed |= r.verdict >> 12 == ACTION_FORWARD;
		}
		store_heads(m, desk, w, due && changed);
		due = due && d.turns != s.turns;
		if (SELDOM(due)) {
			t.near = 0; /* of the snapshot before */
			s = take_snapshot(&t);
		}
	} while (SELDOM(!all_of_warp(!due)));
}

/* Reads the heads of a quad's packets from their frames. While they are on their way,
 * takes what lookups begin with. (A multiprocessor gives loads back in their order: what
 * is asked for behind something of the host's waits for it.) */
DEVICE struct snapshot fetch(const struct mailbox *m, struct desk *desk, uint32_t quad, struct word w, uint32_t n)
{
	uint32_t turns = load32(m->tables.turns);
	struct share h = read_frames(m, w, is_packet(quad, n));
	struct preview v = take_preview(&m->tables, turns);
	lay_out(desk, &h, &v);
	return v.s;
}

/* Polling costs PCIe bandwidth: a block whose chunks come in quick succession has a
 * warp at each quad, others have their first warp look ever more seldom. */
#define EAGER 100    /* looks in vain, of some microsecond each, before a block rests */
#define LONG_REST 2000 /* ns */

/* What a block looks out for: how many quads the chunk before had, and whether their
 * heads came along. */
struct outlook {
	uint32_t quads, heads;
};

/* What a warp has seen of a chunk. */
struct sight {
	int quad;     /* its own: w is of it, */
	struct word w;
	int laid_out; /* and its packets are on the desk, with this snapshot */
	struct snapshot s;
};

/* Looks once for a quad of the chunk seq, and for its heads where they may come along;
 * then what lookups begin with is taken meanwhile. *turns is of before, and of now after. */
DEVICE void look_for(const struct mailbox *m, struct shared *sh, const uint8_t *slot, uint32_t seq, int heads, uint32_t *turns, struct sight *see)
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
		h = read_heads(slot + m->heads, quad);
	*turns = later;
	see->w.low = (uint32_t)v;
	see->w.high = (uint32_t)(v >> 32);
	if (!all_of_warp(shuffle(see->w.low, lane_index() & ~(UNIT_LANES - 1)) == seq))
		return;
	uint32_t size = shuffle(see->w.high, 0);
	see->quad = 1;
	if (heads && size != STOP && size & HEADS && are_of(&h, seq, is_packet(quad, size & ~HEADS))) {
		lay_out(&sh->desks[quad], &h, &p);
		see->laid_out = 1;
		see->s = p.s;
	}
	if (quad == 0 && lane_index() == 0) {
		sh->size[seq % 2] = size;
		sh->seq[seq % 2] = seq;
	}
}

/* Waits for the chunk seq. All warps look at once, so that none is late by a look. */
DEVICE struct sight await(const struct mailbox *m, struct shared *sh, const uint8_t *slot, uint32_t seq, struct outlook o)
{
	struct sight see = {0, {0, 0}, 0, {0, 0, 0}};
	uint32_t warp = warp_index(), turns = load32(m->tables.turns);

	for (uint32_t looks = 0;; looks++) {
		int eager = looks < EAGER;
		if (!see.quad && (warp == 0 || (eager && warp < o.quads)))
			look_for(m, sh, slot, seq, eager && o.heads && warp < HEAD_QUADS, &turns, &see);
		join_block();
		if (sh->seq[seq % 2] == seq)
			return see;
		if (!eager)
			rest(LONG_REST);
	}
}

/* A block of the resident kernel serves one slot until it is told to stop. Its warps
 * are done each by itself, and say so each by itself. */
extern "C" __global__ void __launch_bounds__(THREADS) resident(struct mailbox m)
{
	__shared__ struct shared sh;
	uint8_t *slot = m.slots + (uint64_t)block_index() * m.slot_bytes;
	const uint64_t *quads = (const uint64_t *)(slot + m.quads);
	uint32_t warp = warp_index();
	struct desk *desk = &sh.desks[warp];
	struct outlook o = {1, 0};

	if (thread_index() < 2)
		sh.seq[thread_index()] = 0;
	join_block();
	for (uint32_t seq = 1;; seq++) {
		struct sight see = await(&m, &sh, slot, seq, o);
		uint32_t size = sh.size[seq % 2], n = size & ~HEADS;
		if (size == STOP)
			return;
		o = (struct outlook){quads_of(n), size & HEADS};
		for (uint32_t quad = warp; quad < quads_of(n); quad += WARPS) {
			if (quad != warp || !see.laid_out) {
				while ((quad != warp || !see.quad) && !read_quad(quads, quad, seq, &see.w))
					;
				see.s = fetch(&m, desk, quad, see.w, n);
			}
			work(&m, desk, see.s, slot, quad, see.w, n);
		}
		if (warp < quads_of(n)) {
			fence_host();
			if (lane_index() == 0)
				host_store32((uint32_t *)slot + warp, seq);
		}
	}
}

/* The launched kernel works off the chunk seq of one slot, with as many blocks as
 * it likes; finished counts them, and is 0 before and after. */
extern "C" __global__ void __launch_bounds__(THREADS) launched(struct mailbox m, uint32_t number, uint32_t seq, uint32_t n, uint32_t *finished)
{
	__shared__ struct shared sh;
	uint8_t *slot = m.slots + (uint64_t)number * m.slot_bytes;
	const uint64_t *quads = (const uint64_t *)(slot + m.quads);
	uint32_t warp = warp_index();

	for (uint32_t quad = block_index() * WARPS + warp; quad < quads_of(n); quad += block_count() * WARPS) {
		struct word w;
		read_quad(quads, quad, seq, &w);
		struct snapshot s = fetch(&m, &sh.desks[warp], quad, w, n);
		work(&m, &sh.desks[warp], s, slot, quad, w, n);
	}
	join_block();
	if (thread_index() == 0) {
		fence_host();
		if (count_up(finished) == block_count() - 1) {
			*finished = 0;
			fence_host();
			for (uint32_t i = 0; i < WARPS; i++)
				host_store32((uint32_t *)slot + i, seq);
		}
	}
}

/* A change of the device's copy of the forwarding base: count words of 4 or 8
 * bytes from an address on. */
struct patch {
	uint64_t at, word;
	uint32_t count, bytes;
};

/* Makes changes one after another, by one block; then says how many were made so far. */
extern "C" __global__ void __launch_bounds__(THREADS) patch_tables(const struct patch *list, uint32_t n, uint64_t *made, uint64_t sum)
{
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = host_load64(&list[i].at), word = host_load64(&list[i].word);
		uint64_t shape = host_load64((const uint64_t *)&list[i].count);
		uint32_t count = (uint32_t)shape, bytes = (uint32_t)(shape >> 32);
		for (uint32_t k = thread_index(); k < count; k += THREADS) {
			if (bytes == 8)
				((volatile uint64_t *)at)[k] = word;
			else
				((volatile uint32_t *)at)[k] = (uint32_t)word;
		}
		fence_device();
		join_block();
	}
	if (thread_index() == 0) {
		fence_host();
		host_store64(made, sum);
	}
}
