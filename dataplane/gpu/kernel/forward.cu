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
	uint64_t ports[WARP];
	uint32_t heads[WARP][HEAD_WORDS];
};

struct shared {
	struct desk desks[WARPS];
	uint64_t arrived; /* the chunk that the first warp has seen (low half), and its size */
};

/* A lane's word of a quad. */
struct word {
	uint32_t low, high;
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

/* Copies the first 64 bytes of a warp's frames to its desk, four lanes a frame, so
 * that a frame is one access to the host's memory. While that is on its way, takes
 * what lookups begin with. */
DEVICE struct snapshot load_heads(const struct mailbox *m, struct desk *desk, struct word w, int valid)
{
	struct words4 parts[4];
	uint32_t lane = lane_index(), part = lane % 4;
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t from = i * 8 + lane / 4;
		uint32_t addr = shuffle(w.low, from), len = shuffle(w.high, from) & 0xffff;
		if (!shuffle(valid, from))
			continue;
		if (!SELDOM(!in_line(m, addr)))
			parts[i] = host_load128(m->umem + addr - 2 + part * 16);
		else
			parts[i] = load_bytes(m->umem, addr, len, part * 16);
	}
	struct snapshot s = take_snapshot(&m->tables);
	desk->ports[lane] = load64(m->tables.ports + lane + (s.reuses >> 31));
#pragma unroll
	for (uint32_t i = 0; i < 4; i++)
#pragma unroll
		for (uint32_t k = 0; k < 4; k++)
			desk->heads[i * 8 + lane / 4][part * 4 + k] = parts[i].w[k];
	join_warp();
	return s;
}

/* Writes the first 32 bytes of forwarded frames back, two lanes a frame. */
DEVICE void store_heads(const struct mailbox *m, const struct desk *desk, struct word w, int forward)
{
	join_warp();
	uint32_t part = lane_index() % 2;
#pragma unroll
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t from = i * 16 + lane_index() / 2;
		uint32_t addr = shuffle(w.low, from);
		if (!shuffle(forward, from))
			continue;
		struct words4 v;
		for (uint32_t k = 0; k < 4; k++)
			v.w[k] = desk->heads[from][part * 4 + k];
		if (!SELDOM(!in_line(m, addr)))
			host_store128(m->umem + addr - 2 + part * 16, v);
		else
			store_bytes(m->umem, addr, v, part * 16);
	}
	join_warp();
}

/* Works off the packets of a quad, a lane each. */
DEVICE void work(const struct mailbox *m, struct desk *desk, uint8_t *slot, uint32_t quad, struct word w, uint32_t n)
{
	uint32_t lane = lane_index();
	uint32_t packet = quad * QUAD_FRAMES + lane / UNIT_LANES * UNIT_FRAMES + lane % UNIT_LANES - 1;
	int valid = lane % UNIT_LANES != 0 && packet < n;
	struct result r = {0, 0, 0};

	struct snapshot s = load_heads(m, desk, w, valid);
	if (valid) {
		struct frame f = {w.low, (uint16_t)w.high, (uint16_t)(w.high >> 16)};
		struct tables t = m->tables;
		t.near = WARP;
		t.near_ports = desk->ports;
		r = decide(&t, s, f, m->umem + f.addr, desk->heads[lane]);
		host_store64((uint64_t *)(slot + m->results) + packet, r.addr | (uint64_t)r.len << 32 | (uint64_t)r.verdict << 48);
	}
	store_heads(m, desk, w, r.verdict >> 12 == ACTION_FORWARD);
}

/* Polling costs PCIe bandwidth: a block whose chunks come in quick succession has a
 * warp at each quad, others have their first warp look ever more seldom. */
#define EAGER 100    /* looks in vain, of some microsecond each, before a block rests */
#define LONG_REST 2000 /* ns */

/* Waits for the chunk seq and returns its size. Of the quad at this warp, w and
 * *mine say whether it was read already. expected is how many quads to look at. */
DEVICE uint32_t await(struct shared *sh, const uint64_t *quads, uint32_t seq, uint32_t expected, struct word *w, int *mine)
{
	uint32_t warp = warp_index();
	*mine = 0;
	for (uint32_t looks = 0;; looks++) {
		if (warp == 0 || (warp < expected && looks < EAGER)) {
			if (read_quad(quads, warp, seq, w)) {
				*mine = 1;
				uint32_t n = shuffle(w->high, 0);
				if (warp == 0 && lane_index() == 0)
					shared_exchange(&sh->arrived, seq | (uint64_t)n << 32);
				return n;
			}
			if (looks > EAGER)
				rest(LONG_REST);
		} else {
			rest(100);
		}
		if (warp != 0) {
			uint64_t arrived = lane_index() == 0 ? shared_read(&sh->arrived) : 0;
			if (shuffle((uint32_t)arrived, 0) == seq)
				return shuffle((uint32_t)(arrived >> 32), 0);
		}
	}
}

/* A block of the resident kernel serves one slot until it is told to stop. */
extern "C" __global__ void __launch_bounds__(THREADS) resident(struct mailbox m)
{
	__shared__ struct shared sh;
	uint8_t *slot = m.slots + (uint64_t)block_index() * m.slot_bytes;
	const uint64_t *quads = (const uint64_t *)(slot + m.quads);
	uint32_t warp = warp_index(), expected = 1;

	if (thread_index() == 0)
		sh.arrived = 0;
	join_block();
	for (uint32_t seq = 1;; seq++) {
		struct word w;
		int mine;
		uint32_t n = await(&sh, quads, seq, expected, &w, &mine);
		if (n == STOP)
			return;
		for (uint32_t quad = warp; quad < quads_of(n); quad += WARPS) {
			while (!(mine && quad == warp) && !read_quad(quads, quad, seq, &w))
				;
			work(&m, &sh.desks[warp], slot, quad, w, n);
		}
		expected = quads_of(n);
		join_block();
		if (thread_index() == 0) {
			fence_host();
			host_store32((uint32_t *)slot, seq);
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
		work(&m, &sh.desks[warp], slot, quad, w, n);
	}
	join_block();
	if (thread_index() == 0) {
		fence_host();
		if (count_up(finished) == block_count() - 1) {
			*finished = 0;
			fence_host();
			host_store32((uint32_t *)slot, seq);
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
