/* The stage of a warp: shared memory in which packets are sealed and opened, as many
 * at a time as fit, with their keys.
 *
 *	owners       a byte for each line of packets: the lane whose packet it is of
 *	packets      from below: lines of 16 bytes, and a word between them, so that lanes with
 *	             packets of one size use all banks
 *	keys         from above
 *
 * A packet is read and written by lines, all of a group at once, so that their ways over
 * PCIe overlap. */
#ifndef WARPROUTE_STAGE_H
#define WARPROUTE_STAGE_H

#include "job.h"
#include "quad.h"

#include "../../../ipsec/device/esp.h"

#define LINE 16
#define LINE_WORDS 4
#define KEY_WORDS (uint32_t)(sizeof(struct esp_key) / 4)
#define KEY_LINES (uint32_t)(sizeof(struct esp_key) / LINE)
#define NO_KEY 0xffffffffu
#define AHEAD 4 /* lines that a lane asks for before it waits for the first */

struct stage {
	uint32_t *words;
	uint32_t size;
};

DEVICE uint8_t *owners_of(const struct stage *s) { return (uint8_t *)s->words; }

/* A lane's packet, and what the lane loads for the others. */
struct cargo {
	struct job job;
	uint32_t start, lines; /* of host memory: where the first line is, and how many */
	uint32_t at, key;      /* words of the stage */
	uint32_t first;        /* line of the group */
	uint32_t loads;        /* number of the record that is the group's key with the lane's number */
	/* ESP within the stage. */
	uint32_t esp, text;    /* words */
	uint32_t differs;      /* it is not authentic */
};

DEVICE uint32_t kind_of(const struct cargo *c) { return c->job.flags & JOB_KIND; }

/* The packets of lanes that are on the stage together, and how much that is. */
struct group {
	uint32_t lanes, lines, keys;
};

/* Places the first of the packets that wait, as many as fit. Where one has the key of the
 * one before, they share it. */
DEVICE struct group place(const struct stage *s, uint32_t waiting, struct cargo *c)
{
	struct group g = {0, 0, 0};
	uint32_t low = s->size / (4 * LINE_WORDS) + 1, high = s->size & ~3u, last = NO_KEY;

	ROLL
	for (uint32_t lane = 0; lane < WARP; lane++) {
		if (!(waiting >> lane & 1))
			continue;
		uint32_t lines = shuffle(c->lines, lane), number = shuffle(c->job.key, lane);
		uint32_t key = number == last ? 0 : KEY_WORDS, words = lines * LINE_WORDS + 1;
		if (low + words + key > high)
			break;
		high -= key;
		if (key && lane_index() == g.keys++)
			c->loads = number;
		if (lane_index() == lane) {
			c->at = low;
			c->key = high;
			c->first = g.lines;
		}
		for (uint32_t i = lane_index(); i < lines; i += WARP)
			owners_of(s)[g.lines + i] = (uint8_t)lane;
		last = number;
		low += words;
		g.lines += lines;
		g.lanes |= 1u << lane;
	}
	join_warp();
	return g;
}

/* Reads the group's packets. */
DEVICE void load_packets(const struct mailbox *m, const struct stage *s, const struct cargo *c, uint32_t lines)
{
	ROLL
	for (uint32_t from = 0; from < lines; from += AHEAD * WARP) {
		struct words4 v[AHEAD];
		uint32_t to[AHEAD];
		UNROLL
		for (uint32_t i = 0; i < AHEAD; i++) {
			uint32_t line = from + i * WARP + lane_index();
			uint32_t owner = line < lines ? owners_of(s)[line] : 0;
			uint32_t nth = line - shuffle(c->first, owner);
			uint32_t start = shuffle(c->start, owner);
			to[i] = shuffle(c->at, owner) + nth * LINE_WORDS;
			if (line < lines)
				v[i] = host_load128(m->umem + start + nth * LINE);
		}
		UNROLL
		for (uint32_t i = 0; i < AHEAD; i++)
			UNROLL
			for (uint32_t k = 0; k < LINE_WORDS; k++)
				if (from + i * WARP + lane_index() < lines)
					s->words[to[i] + k] = v[i].w[k];
	}
}

/* Reads the group's keys, past the caches that a router's changes do not reach. */
DEVICE void load_keys(const struct esp_key *keys, const struct stage *s, const struct cargo *c, uint32_t n)
{
	const uint32_t end = s->size & ~3u;

	ROLL
	for (uint32_t from = 0; from < n * KEY_LINES; from += AHEAD * WARP) {
		struct words4 v[AHEAD];
		uint32_t to[AHEAD];
		UNROLL
		for (uint32_t i = 0; i < AHEAD; i++) {
			uint32_t line = from + i * WARP + lane_index();
			uint32_t key = line / KEY_LINES, nth = line % KEY_LINES;
			uint32_t number = shuffle(c->loads, key % WARP);
			to[i] = end - (key + 1) * KEY_WORDS + nth * LINE_WORDS;
			if (key < n)
				v[i] = host_load128((const uint8_t *)&keys[number] + nth * LINE);
		}
		UNROLL
		for (uint32_t i = 0; i < AHEAD; i++)
			UNROLL
			for (uint32_t k = 0; k < LINE_WORDS; k++)
				if (from + i * WARP + lane_index() < n * KEY_LINES)
					s->words[to[i] + k] = v[i].w[k];
	}
}

/* Writes back the lines of packets of some lanes: those from a line of the packet's own
 * on to another. */
DEVICE void store_packets(const struct mailbox *m, const struct stage *s, const struct cargo *c, uint32_t lanes, uint32_t from, uint32_t end)
{
	ROLL
	for (uint32_t lane = 0; lane < WARP; lane++) {
		if (!(lanes >> lane & 1))
			continue;
		uint32_t start = shuffle(c->start, lane), at = shuffle(c->at, lane);
		uint32_t last = shuffle(end, lane);
		for (uint32_t i = shuffle(from, lane) + lane_index(); i < last; i += WARP) {
			struct words4 v;
			UNROLL
			for (uint32_t k = 0; k < LINE_WORDS; k++)
				v.w[k] = s->words[at + i * LINE_WORDS + k];
			host_store128(m->umem + start + i * LINE, v);
		}
	}
}

#endif
