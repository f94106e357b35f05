/* Staging buffer of a warp: shared memory in which packets are sealed and opened, as many at a time
 * as fit, with their keys. Included by crypt.h and heads.h.
 *
 *	segment owners  a byte per segment: the lane whose packet it belongs to, KEY_OWNER plus the lane
 *	                that has the key's position, or NO_OWNER
 *	packets         upward from there: segments, and a word between packets, so that lanes with
 *	                packets of one size use all banks
 *	keys            downward from the end: the segments in use
 *
 * All segments of a set that are not in the scratch (heads.h) are read at once, and all are written
 * at once, so that PCIe requests overlap. A request covers
 * up to 128 aligned bytes in sectors of 32: adjacent lanes access one request, and no sector is
 * split, which would cost two. Bytes around a packet are written back as they were read, or as 0 if the device has moved the
 * beginning of the frame: its buffer is the packet's. */
#ifndef WARPROUTE_STAGING_H
#define WARPROUTE_STAGING_H

#include "bin.h"

#define REQUEST_SEGMENTS 8
#define KEY_OWNER WARP_SIZE
#define NO_OWNER 0xffu
#define NO_KEY 0xffffffffu
#define LOADS_IN_FLIGHT 12 /* loads per lane before it waits for the first */

struct staging {
	uint32_t *words;
	uint32_t size;
};

/* Returns the staging buffer of a batch whose tile has batches of some packets. It begins in the scratch, which is in front of the warp's, behind
 * the rows of lanes that may have a packet. */
DEVICE struct staging staging_of_batch(const struct staging *s, uint32_t batch_packets)
{
	uint32_t lanes = (batch_packets + DESC_LINE_FRAMES - 1) / DESC_LINE_FRAMES * DESC_LINE_LANES, unused = (WARP_SIZE - lanes) * ROW_WORDS;

	return (struct staging){s->words - unused, s->size + unused};
}

DEVICE uint8_t *segment_owners(const struct staging *s) { return (uint8_t *)s->words; }

/* Packets staged together: their lanes, the number of segments, the word offset of the first key, and the most lanes that share a packet. */
struct staged_set {
	uint32_t lanes, segments, keys, most_lanes;
};

/* Returns the number of unowned segments to insert so that adjacent lanes access one request. number
 * is that of the next segment in host memory. */
DEVICE uint32_t request_padding(const struct staged_set *g, uint32_t number) { return (number - g->segments) % REQUEST_SEGMENTS; }

/* Assigns the next segments of the set to an owner. me is the lane. */
DEVICE void assign_segments(const struct staging *s, struct staged_set *g, uint32_t me, uint32_t owner, uint32_t segments)
{
	PRAGMA_UNROLL_1
	for (uint32_t i = me; i < segments; i += WARP_SIZE)
		segment_owners(s)[g->segments + i] = (uint8_t)owner;
	g->segments += segments;
}

/* Returns whether a staged key has all segments that another packet needs of its own. */
DEVICE int covers_key(uint32_t brought, uint32_t record) { return ((record ^ brought) & JOB_KEY_MASK) == 0 && record <= brought; }

/* Returns the segments of the largest key that opens a packet of some segments: GCM has powers, HMAC has states. */
DEVICE uint32_t largest_key(uint32_t segments)
{
	return 1 + ESP_ROUND_KEYS + (segments < ESP_STATES ? ESP_STATES : min32(ESP_POWERS, segments));
}

/* Segments of the largest key that has no powers: to seal with AES-CBC, whose IVs are encrypted with a key of 128 bits. */
#define LARGEST_WITHOUT_POWERS (1 + ESP_ROUND_KEYS + ESP_STATES + AES_FEWEST_ROUNDS + 1)
static_assert(LARGEST_WITHOUT_POWERS >= 1 + ESP_ROUND_KEYS + ESP_POWERS / 2, "it has all powers that half of the lanes use");

/* Returns the segments to stage of a key of which a packet needs some if all lanes share it. */
DEVICE uint32_t segments_to_stage(const struct staged_set *g, uint32_t segments)
{
	return g->most_lanes == GCM_LANES ? segments : min32(segments, LARGEST_WITHOUT_POWERS);
}

/* Places the first pending packets, as many as fit. A packet that needs no more of the previous
 * packet's key shares it. With find, the SAs are not known yet: each packet has room for the largest key, and
 * place_keys follows. */
DEVICE struct staged_set place_packets(const struct staging *s, uint32_t pending, struct esp_lane *c, int find)
{
	struct staged_set g = {0, 0, s->size & ~3u, most_lanes(c, pending)};
	uint32_t low = s->size / (4 * SEGMENT_WORDS) + 1, most = 4 * low, last = NO_KEY, keys = 0, me = lane_id();

	PRAGMA_UNROLL_1
	for (; pending; pending &= pending - 1) {
		uint32_t lane = lowest_bit(pending);
		uint32_t segments = __shfl_sync(FULL_MASK, c->segments, lane);
		uint32_t record = __shfl_sync(FULL_MASK, c->job.key, lane);
		uint32_t from = __shfl_sync(FULL_MASK, c->received.from + c->head, lane), to = __shfl_sync(FULL_MASK, c->received.to, lane);
		uint32_t start = __shfl_sync(FULL_MASK, c->start, lane) + from * SEGMENT;
		uint32_t needed = find ? largest_key(min32(segments, 2 * g.most_lanes)) : covers_key(last, record) ? 0 : segments_to_stage(&g, record >> JOB_KEY_SEGMENTS_SHIFT);
		if (low + segments * SEGMENT_WORDS + 1 + needed * SEGMENT_WORDS > g.keys || g.segments + needed + REQUEST_SEGMENTS + segments > most)
			break;
		if (find) {
			g.keys -= needed * SEGMENT_WORDS;
		} else if (needed) {
			g.keys -= needed * SEGMENT_WORDS;
			if (me == keys) {
				c->record = record;
				c->key_word = g.keys;
				c->key_first_segment = g.segments;
			}
			assign_segments(s, &g, me, KEY_OWNER + keys++, needed);
			last = record;
		}
		if (from < to)
			assign_segments(s, &g, me, NO_OWNER, request_padding(&g, start / SEGMENT));
		if (me == lane) {
			c->at = low;
			c->key = g.keys;
			c->first = g.segments - from;
		}
		assign_segments(s, &g, me, lane, to - from);
		low += segments * SEGMENT_WORDS + 1;
		g.lanes |= 1u << lane;
	}
	__syncwarp();
	return g;
}

/* Places the keys of a set's packets, and returns the number of their segments, which are the next to load. */
DEVICE uint32_t place_keys(const struct staging *s, const struct staged_set *set, struct esp_lane *c)
{
	struct staged_set g = {0, 0, 0, set->most_lanes};
	uint32_t last = NO_KEY, at = 0, keys = 0, me = lane_id();

	PRAGMA_UNROLL_1
	for (uint32_t lanes = set->lanes; lanes; lanes &= lanes - 1) {
		uint32_t lane = lowest_bit(lanes);
		uint32_t record = __shfl_sync(FULL_MASK, c->job.key, lane), to = __shfl_sync(FULL_MASK, c->key, lane);
		if (!covers_key(last, record)) {
			if (me == keys) {
				c->record = record;
				c->key_word = to;
				c->key_first_segment = g.segments;
			}
			assign_segments(s, &g, me, KEY_OWNER + keys++, min32(record >> JOB_KEY_SEGMENTS_SHIFT, largest_key(2 * g.most_lanes)));
			last = record;
			at = to;
		}
		if (me == lane)
			c->key = at;
	}
	__syncwarp();
	return g.segments;
}

/* A segment to load: its address in host or device memory, NULL for none, and its word offset in the
 * staging buffer. */
struct segment_copy {
	const uint8_t *from;
	uint32_t to;
};

DEVICE struct segment_copy locate_segment(const struct tile *tile, const struct esp_key *keys,
				    const struct staging *s, const struct esp_lane *c, uint32_t segments,
				    uint32_t segment)
{
	uint32_t owner = segment < segments ? segment_owners(s)[segment] : NO_OWNER, who = owner % WARP_SIZE;
	uint32_t start = __shfl_sync(FULL_MASK, c->start, who);
	uint32_t at = __shfl_sync(FULL_MASK, c->at, who);
	uint32_t first = __shfl_sync(FULL_MASK, c->first, who);
	uint32_t record = __shfl_sync(FULL_MASK, c->record, who);
	uint32_t key_word = __shfl_sync(FULL_MASK, c->key_word, who);
	uint32_t key_first_segment = __shfl_sync(FULL_MASK, c->key_first_segment, who);

	if (owner == NO_OWNER)
		return (struct segment_copy){0, 0};
	if (owner < KEY_OWNER)
		return (struct segment_copy){tile->umem + start + (segment - first) * SEGMENT, at + (segment - first) * SEGMENT_WORDS};
	const uint8_t *key = (const uint8_t *)&keys[record & JOB_KEY_MASK];
	return (struct segment_copy){key + (segment - key_first_segment) * SEGMENT, key_word + (segment - key_first_segment) * SEGMENT_WORDS};
}

/* Loads packets and keys of the set, past the caches, which are not coherent with the host's key
 * updates. */
DEVICE void load_staged_set(const struct tile *tile, const struct esp_key *keys, const struct staging *s,
			    const struct esp_lane *c, uint32_t segments)
{
	PRAGMA_UNROLL_1
	for (uint32_t from = 0; from < segments; from += LOADS_IN_FLIGHT * WARP_SIZE) {
		struct words4 v[LOADS_IN_FLIGHT];
		struct segment_copy l[LOADS_IN_FLIGHT];
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < LOADS_IN_FLIGHT; i++) {
			l[i] = locate_segment(tile, keys, s, c, segments, from + i * WARP_SIZE + lane_id());
			if (l[i].from)
				v[i] = host_load128(l[i].from);
		}
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < LOADS_IN_FLIGHT; i++)
			PRAGMA_UNROLL
			for (uint32_t k = 0; k < SEGMENT_WORDS; k++)
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

#define SHORT_SEGMENTS 16 /* of a packet that is written back beside others */

/* Writes back the segments of some lanes' packets: one packet after another by all lanes, or, if each ends within its first
 * SHORT_SEGMENTS, four packets at a time, each by the lanes that write one request. */
DEVICE void store_packets(const struct tile *tile, const struct staging *s, const struct esp_lane *c,
			  uint32_t lanes, struct segments segments)
{
	uint32_t me = lane_id(), mine = lanes >> me & 1;
	uint32_t width = __all_sync(FULL_MASK, !mine || segments.to <= SHORT_SEGMENTS) ? REQUEST_SEGMENTS : WARP_SIZE;

	PRAGMA_UNROLL_1
	for (; lanes; lanes = without_first(lanes, WARP_SIZE / width)) {
		uint32_t owner = nth_lane(lanes, me / width), lane = owner % WARP_SIZE;
		uint32_t start = __shfl_sync(FULL_MASK, c->start, lane);
		uint32_t at = __shfl_sync(FULL_MASK, c->at, lane);
		uint32_t ahead = start / SEGMENT % REQUEST_SEGMENTS;
		uint32_t from = ahead + __shfl_sync(FULL_MASK, segments.from, lane);
		uint32_t to = ahead + __shfl_sync(FULL_MASK, segments.to, lane);
		if (owner == WARP_SIZE)
			continue;
		PRAGMA_UNROLL_1
		for (uint32_t i = from / REQUEST_SEGMENTS * REQUEST_SEGMENTS + me % width; i < to; i += width) {
			struct words4 v;
			if (i < from)
				continue;
			PRAGMA_UNROLL
			for (uint32_t k = 0; k < SEGMENT_WORDS; k++)
				v.w[k] = s->words[at + (i - ahead) * SEGMENT_WORDS + k];
			host_store128(tile->umem + start + (i - ahead) * SEGMENT, v);
		}
	}
}

#endif
