/* The stage of a warp: shared memory in which packets are sealed and opened, as many
 * at a time as fit, with their keys.
 *
 *	owners       a byte for each line: the lane whose packet it is of, or KEY and the lane
 *	             that knows whose key, or NOBODY
 *	packets      from below: lines of 16 bytes, and a word between them, so that lanes with
 *	             packets of one size use all banks
 *	keys         from above: what of them is needed
 *
 * A packet is read and written by lines, all of a group at once, so that their ways over
 * PCIe overlap. It goes there in requests of up to 128 aligned bytes, and these in sectors of
 * 32: lanes side by side read and write what is of one request, and no sector in part, which
 * would take as long as two. What is written back around a packet is what was read there. */
#ifndef WARPROUTE_STAGE_H
#define WARPROUTE_STAGE_H

#include "job.h"
#include "quad.h"

#include "../../../ipsec/device/esp.h"

#define LINE 16
#define LINE_WORDS 4
#define SECTOR 32
#define SECTOR_LINES (SECTOR / LINE)
#define REQUEST_LINES 8
#define KEY WARP
#define NOBODY 0xffu
#define NO_KEY 0xffffffffu
#define AHEAD 12 /* lines that a lane asks for before it waits for the first */

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
	uint32_t record, record_at, record_first; /* of the group's key with the lane's number: as job.key, at, first */
	/* ESP within the stage. */
	uint32_t esp, text;    /* words */
	uint32_t differs;      /* it is not authentic */
};

/* What a lane has with a job for its packet. */
DEVICE struct cargo cargo_of(struct job job, struct word w)
{
	struct cargo c = {job, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

	c.start = (w.low - 2) & ~(SECTOR - 1u);
	c.lines = (w.low + job.esp + job.bytes - c.start + SECTOR - 1) / SECTOR * SECTOR_LINES;
	return c;
}

/* Lines of a packet: from one up to another. */
struct lines {
	uint32_t from, to;
};

DEVICE uint32_t kind_of(const struct cargo *c) { return c->job.flags & JOB_KIND; }

/* The packets of lanes that are on the stage together, how much that is, and from which
 * word on there are keys. */
struct group {
	uint32_t lanes, lines, keys;
};

/* How many lines of the group nobody owns, so that lanes side by side read what is of one
 * request, when the next one is this line of memory. */
DEVICE uint32_t out_of_line(const struct group *g, uint32_t number) { return (number - g->lines) % REQUEST_LINES; }

/* Makes a lane the owner of so many lines more. */
DEVICE void own(const struct stage *s, struct group *g, uint32_t owner, uint32_t lines)
{
	for (uint32_t i = lane_index(); i < lines; i += WARP)
		owners_of(s)[g->lines + i] = (uint8_t)owner;
	g->lines += lines;
}

/* Tells whether one packet's key has what another needs of its own. */
DEVICE int has_key(uint32_t brought, uint32_t record) { return ((record ^ brought) & JOB_NUMBER) == 0 && record <= brought; }

/* Places the first of the packets that wait, as many as fit. Where one has the key of the
 * one before, or less of it, they share it. */
DEVICE struct group place(const struct stage *s, uint32_t waiting, struct cargo *c)
{
	struct group g = {0, 0, s->size & ~3u};
	uint32_t low = s->size / (4 * LINE_WORDS) + 1, most = 4 * low, last = NO_KEY, keys = 0;

	ROLL
	for (uint32_t lane = 0; lane < WARP; lane++) {
		if (!(waiting >> lane & 1))
			continue;
		uint32_t lines = shuffle(c->lines, lane), record = shuffle(c->job.key, lane), start = shuffle(c->start, lane);
		uint32_t needed = has_key(last, record) ? 0 : record >> JOB_LINES;
		if (low + lines * LINE_WORDS + 1 + needed * LINE_WORDS > g.keys || g.lines + needed + REQUEST_LINES + lines > most)
			break;
		if (needed) {
			g.keys -= needed * LINE_WORDS;
			if (lane_index() == keys) {
				c->record = record;
				c->record_at = g.keys;
				c->record_first = g.lines;
			}
			own(s, &g, KEY + keys++, needed);
			last = record;
		}
		own(s, &g, NOBODY, out_of_line(&g, start / LINE));
		if (lane_index() == lane) {
			c->at = low;
			c->key = g.keys;
			c->first = g.lines;
		}
		own(s, &g, lane, lines);
		low += lines * LINE_WORDS + 1;
		g.lanes |= 1u << lane;
	}
	join_warp();
	return g;
}

/* A line that a lane reads: where it is, 0 if nowhere, and the word of the stage that it
 * is for. */
struct line {
	const uint8_t *from;
	uint32_t to;
};

DEVICE struct line find_line(const struct mailbox *m, const struct esp_key *keys, const struct stage *s, const struct cargo *c, uint32_t lines, uint32_t line)
{
	uint32_t owner = line < lines ? owners_of(s)[line] : NOBODY, who = owner % WARP;
	uint32_t start = shuffle(c->start, who), at = shuffle(c->at, who), first = shuffle(c->first, who);
	uint32_t record = shuffle(c->record, who), record_at = shuffle(c->record_at, who), record_first = shuffle(c->record_first, who);

	if (owner == NOBODY)
		return (struct line){0, 0};
	if (owner < KEY)
		return (struct line){m->umem + start + (line - first) * LINE, at + (line - first) * LINE_WORDS};
	const uint8_t *key = (const uint8_t *)&keys[record & JOB_NUMBER];
	return (struct line){key + (line - record_first) * LINE, record_at + (line - record_first) * LINE_WORDS};
}

/* Reads the group's packets and keys, these too past the caches that a router's changes
 * do not reach. */
DEVICE void load_group(const struct mailbox *m, const struct esp_key *keys, const struct stage *s, const struct cargo *c, uint32_t lines)
{
	ROLL
	for (uint32_t from = 0; from < lines; from += AHEAD * WARP) {
		struct words4 v[AHEAD];
		struct line l[AHEAD];
		UNROLL
		for (uint32_t i = 0; i < AHEAD; i++) {
			l[i] = find_line(m, keys, s, c, lines, from + i * WARP + lane_index());
			if (l[i].from)
				v[i] = host_load128(l[i].from);
		}
		UNROLL
		for (uint32_t i = 0; i < AHEAD; i++)
			UNROLL
			for (uint32_t k = 0; k < LINE_WORDS; k++)
				if (l[i].from)
					s->words[l[i].to + k] = v[i].w[k];
	}
	join_warp();
}

/* Forgets the group's keys: an association may end before the stage is used again. */
DEVICE void forget_keys(const struct stage *s, const struct group *g)
{
	ROLL
	for (uint32_t i = g->keys + lane_index(); i < s->size; i += WARP)
		s->words[i] = 0;
	join_warp();
}

/* Writes back packets of some lanes. */
DEVICE void store_packets(const struct mailbox *m, const struct stage *s, const struct cargo *c, uint32_t lanes, struct lines lines)
{
	ROLL
	for (uint32_t lane = 0; lane < WARP; lane++) {
		if (!(lanes >> lane & 1))
			continue;
		uint32_t start = shuffle(c->start, lane), at = shuffle(c->at, lane), ahead = start / LINE % REQUEST_LINES;
		uint32_t from = ahead + shuffle(lines.from, lane), to = ahead + shuffle(lines.to, lane);
		for (uint32_t i = from / REQUEST_LINES * REQUEST_LINES + lane_index(); i < to; i += WARP) {
			struct words4 v;
			if (i < from)
				continue;
			UNROLL
			for (uint32_t k = 0; k < LINE_WORDS; k++)
				v.w[k] = s->words[at + (i - ahead) * LINE_WORDS + k];
			host_store128(m->umem + start + (i - ahead) * LINE, v);
		}
	}
}

#endif
