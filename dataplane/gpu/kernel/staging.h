/* Staging buffer of a warp: shared memory in which packets are sealed and opened, as many at a time
 * as fit, with their keys. Included by crypt.h.
 *
 *	line owners  a byte per 16-byte line: the lane whose packet it belongs to, KEY_OWNER plus the
 *	             lane that has the key's position, or NO_OWNER
 *	packets      upward from there: 16-byte lines, and a word between packets, so that lanes with
 *	             packets of one size use all banks
 *	keys         downward from the end: the lines in use
 *
 * All lines of a set are read or written at once, so that PCIe requests overlap. A request covers
 * up to 128 aligned bytes in sectors of 32: adjacent lanes access one request, and no sector is
 * split, which would cost two. Bytes around a packet are written back as they were read. */
#ifndef WARPROUTE_STAGING_H
#define WARPROUTE_STAGING_H

#include "job.h"
#include "warp_batch.h"

#include "../../../ipsec/device/esp.h"

#define LINE ESP_LINE_BYTES
#define LINE_WORDS (LINE / 4)
#define SECTOR 32
#define SECTOR_LINES (SECTOR / LINE)
#define REQUEST_LINES 8
#define KEY_OWNER WARP_SIZE
#define NO_OWNER 0xffu
#define NO_KEY 0xffffffffu
#define LOADS_IN_FLIGHT 12 /* loads per lane before it waits for the first */

struct staging {
	uint32_t *words;
	uint32_t size;
};

DEVICE uint8_t *line_owners(const struct staging *s) { return (uint8_t *)s->words; }

/* Per-lane ESP context: the lane's own packet, and the key that the lane loads for others. */
struct esp_lane {
	struct job job;
	uint32_t start, lines;                     /* first line in host memory, and how many */
	uint32_t at, key;                          /* word offsets in the staging buffer */
	uint32_t first;                            /* first line of the packet in the set */
	uint32_t record, key_word, key_first_line; /* of the set's key with this lane's number */
	/* Within the staging buffer. */
	uint32_t esp, text; /* word offset of the SPI; words of text */
	uint32_t failed;    /* not authentic, or the key does not match */
};

/* Returns a lane's context for a job and its descriptor. */
DEVICE struct esp_lane esp_lane_of(struct job job, struct desc_word w)
{
	struct esp_lane c = {job, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

	c.start = (w.low - 2) & ~(SECTOR - 1u);
	c.lines = (w.low + job.esp + job.bytes - c.start + SECTOR - 1) / SECTOR * SECTOR_LINES;
	return c;
}

/* A range of a packet's lines, from inclusive, to exclusive. */
struct lines {
	uint32_t from, to;
};

DEVICE uint32_t job_kind(const struct esp_lane *c) { return c->job.flags & JOB_KIND; }

/* Packets staged together: their lanes, the number of lines, and the word offset of the first key. */
struct staged_set {
	uint32_t lanes, lines, keys;
};

/* Returns the unowned lines to insert so that adjacent lanes access one request, where number is
 * the next line of memory. */
DEVICE uint32_t request_padding(const struct staged_set *g, uint32_t number) { return (number - g->lines) % REQUEST_LINES; }

/* Assigns the next lines of the set to an owner. */
DEVICE void assign_lines(const struct staging *s, struct staged_set *g, uint32_t owner, uint32_t lines)
{
	for (uint32_t i = lane_id(); i < lines; i += WARP_SIZE)
		line_owners(s)[g->lines + i] = (uint8_t)owner;
	g->lines += lines;
}

/* Returns whether a staged key has all lines that another packet needs of its own. */
DEVICE int covers_key(uint32_t brought, uint32_t record) { return ((record ^ brought) & JOB_KEY_MASK) == 0 && record <= brought; }

/* Places the first pending packets, as many as fit. A packet that needs no more of the previous
 * packet's key shares it. */
DEVICE struct staged_set place_packets(const struct staging *s, uint32_t pending, struct esp_lane *c)
{
	struct staged_set g = {0, 0, s->size & ~3u};
	uint32_t low = s->size / (4 * LINE_WORDS) + 1, most = 4 * low, last = NO_KEY, keys = 0;

	PRAGMA_UNROLL_1
	for (uint32_t lane = 0; lane < WARP_SIZE; lane++) {
		if (!(pending >> lane & 1))
			continue;
		uint32_t lines = __shfl_sync(FULL_MASK, c->lines, lane);
		uint32_t record = __shfl_sync(FULL_MASK, c->job.key, lane);
		uint32_t start = __shfl_sync(FULL_MASK, c->start, lane);
		uint32_t needed = covers_key(last, record) ? 0 : record >> JOB_KEY_LINES_SHIFT;
		if (low + lines * LINE_WORDS + 1 + needed * LINE_WORDS > g.keys || g.lines + needed + REQUEST_LINES + lines > most)
			break;
		if (needed) {
			g.keys -= needed * LINE_WORDS;
			if (lane_id() == keys) {
				c->record = record;
				c->key_word = g.keys;
				c->key_first_line = g.lines;
			}
			assign_lines(s, &g, KEY_OWNER + keys++, needed);
			last = record;
		}
		assign_lines(s, &g, NO_OWNER, request_padding(&g, start / LINE));
		if (lane_id() == lane) {
			c->at = low;
			c->key = g.keys;
			c->first = g.lines;
		}
		assign_lines(s, &g, lane, lines);
		low += lines * LINE_WORDS + 1;
		g.lanes |= 1u << lane;
	}
	__syncwarp();
	return g;
}

/* A line to load: its address in host or device memory, NULL for none, and its word offset in the
 * staging buffer. */
struct line_copy {
	const uint8_t *from;
	uint32_t to;
};

DEVICE struct line_copy locate_line(const struct mailbox *m, const struct esp_key *keys,
				    const struct staging *s, const struct esp_lane *c, uint32_t lines,
				    uint32_t line)
{
	uint32_t owner = line < lines ? line_owners(s)[line] : NO_OWNER, who = owner % WARP_SIZE;
	uint32_t start = __shfl_sync(FULL_MASK, c->start, who);
	uint32_t at = __shfl_sync(FULL_MASK, c->at, who);
	uint32_t first = __shfl_sync(FULL_MASK, c->first, who);
	uint32_t record = __shfl_sync(FULL_MASK, c->record, who);
	uint32_t key_word = __shfl_sync(FULL_MASK, c->key_word, who);
	uint32_t key_first_line = __shfl_sync(FULL_MASK, c->key_first_line, who);

	if (owner == NO_OWNER)
		return (struct line_copy){0, 0};
	if (owner < KEY_OWNER)
		return (struct line_copy){m->umem + start + (line - first) * LINE, at + (line - first) * LINE_WORDS};
	const uint8_t *key = (const uint8_t *)&keys[record & JOB_KEY_MASK];
	return (struct line_copy){key + (line - key_first_line) * LINE, key_word + (line - key_first_line) * LINE_WORDS};
}

/* Loads packets and keys of the set, past the caches, which are not coherent with the host's key
 * updates. */
DEVICE void load_staged_set(const struct mailbox *m, const struct esp_key *keys, const struct staging *s,
			    const struct esp_lane *c, uint32_t lines)
{
	PRAGMA_UNROLL_1
	for (uint32_t from = 0; from < lines; from += LOADS_IN_FLIGHT * WARP_SIZE) {
		struct words4 v[LOADS_IN_FLIGHT];
		struct line_copy l[LOADS_IN_FLIGHT];
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < LOADS_IN_FLIGHT; i++) {
			l[i] = locate_line(m, keys, s, c, lines, from + i * WARP_SIZE + lane_id());
			if (l[i].from)
				v[i] = host_load128(l[i].from);
		}
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < LOADS_IN_FLIGHT; i++)
			PRAGMA_UNROLL
			for (uint32_t k = 0; k < LINE_WORDS; k++)
				if (l[i].from)
					s->words[l[i].to + k] = v[i].w[k];
	}
	__syncwarp();
}

/* Clears the keys of the set: an SA may end before the staging buffer is used again. */
DEVICE void zero_keys(const struct staging *s, const struct staged_set *g)
{
	PRAGMA_UNROLL_1
	for (uint32_t i = g->keys + lane_id(); i < s->size; i += WARP_SIZE)
		s->words[i] = 0;
	__syncwarp();
}

/* Writes back the lines of some lanes' packets. */
DEVICE void store_packets(const struct mailbox *m, const struct staging *s, const struct esp_lane *c,
			  uint32_t lanes, struct lines lines)
{
	PRAGMA_UNROLL_1
	for (uint32_t lane = 0; lane < WARP_SIZE; lane++) {
		if (!(lanes >> lane & 1))
			continue;
		uint32_t start = __shfl_sync(FULL_MASK, c->start, lane);
		uint32_t at = __shfl_sync(FULL_MASK, c->at, lane);
		uint32_t ahead = start / LINE % REQUEST_LINES;
		uint32_t from = ahead + __shfl_sync(FULL_MASK, lines.from, lane);
		uint32_t to = ahead + __shfl_sync(FULL_MASK, lines.to, lane);
		for (uint32_t i = from / REQUEST_LINES * REQUEST_LINES + lane_id(); i < to; i += WARP_SIZE) {
			struct words4 v;
			if (i < from)
				continue;
			PRAGMA_UNROLL
			for (uint32_t k = 0; k < LINE_WORDS; k++)
				v.w[k] = s->words[at + (i - ahead) * LINE_WORDS + k];
			host_store128(m->umem + start + (i - ahead) * LINE, v);
		}
	}
}

#endif
