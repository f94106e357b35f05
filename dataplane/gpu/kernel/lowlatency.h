/* Low-latency path: inlined headers arrive in the mailbox, and inline completions leave by it.
 * Included by poll.h. mailbox.h has the format. */
#ifndef WARPROUTE_LOWLATENCY_H
#define WARPROUTE_LOWLATENCY_H

#include "warp_batch.h"

/* The lane whose short header this lane reads as segments[i], and the number of the segment in it. */
DEVICE uint32_t short_source_lane(uint32_t i) { return i * 16 + lane_id() / 2; }
DEVICE uint32_t short_segment(void) { return lane_id() % 2; }

/* Reads the inlined headers of a batch in the given format. Lanes without a descriptor read
 * nothing. */
DEVICE struct header_segments read_inline_headers(const struct mailbox *m, const uint8_t *slot, uint32_t batch_index,
					uint32_t format)
{
	struct header_segments h;
	if (format == INLINE_SHORT_HEADERS) {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 2; i++) {
			h.segments[i] = (struct words4){{0, 0, 0, 0}};
			h.before[i] = 0;
			if (short_source_lane(i) % DESC_LINE_LANES != 0)
				h.segments[i] = host_load128(slot + m->short_headers + (batch_index * WARP_SIZE + short_source_lane(i)) * SHORT_HEADER_BYTES + short_segment() * 16);
		}
		return h;
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		h.segments[i] = (struct words4){{0, 0, 0, 0}};
		h.before[i] = 0;
		if (source_lane(i) % DESC_LINE_LANES != 0)
			h.segments[i] = host_load128(slot + m->headers + (batch_index * WARP_SIZE + source_lane(i)) * HEADER_BYTES + header_segment() * 16);
	}
	return h;
}

/* Returns whether all inlined headers of a batch belong to the tile with a number. */
DEVICE int inline_headers_match(const struct header_segments *h, uint32_t format, uint32_t number, int valid)
{
	uint32_t right = 1, want = tag_of(number);
	if (format == INLINE_SHORT_HEADERS) {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t tag = __shfl_sync(FULL_MASK, h->segments[i].w[0], lane_id() & ~1u) & 0xffff;
			right &= !__shfl_sync(FULL_MASK, valid, short_source_lane(i)) | (tag == want);
		}
		return __all_sync(FULL_MASK, right);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t tag = __shfl_sync(FULL_MASK, h->segments[i].w[0], lane_id() & ~3u) & 0xffff;
		right &= !__shfl_sync(FULL_MASK, valid, source_lane(i)) | (tag == want);
	}
	return __all_sync(FULL_MASK, right);
}

/* Copies inlined headers to the scratch. The caller synchronizes the warp. */
DEVICE void fill_inline_headers(struct warp_scratch *scratch, const struct header_segments *h, uint32_t format)
{
	if (format != INLINE_SHORT_HEADERS) {
		fill_headers(scratch, h);
		return;
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 2; i++)
		PRAGMA_UNROLL
		for (uint32_t k = 0; k < 4; k++)
			header_row(scratch, short_source_lane(i))[SHORT_HEADER_WORD + short_segment() * 4 + k] = h->segments[i].w[k];
}

/* Builds the inline completion of a packet in place of its first 32 rewritten header bytes. */
DEVICE void make_completion(const struct result *r, uint32_t tag, uint32_t generation, uint32_t *to)
{
	if (r->verdict >> 12 != ACTION_FORWARD) {
		to[0] = r->addr << 16;
		to[1] = r->addr >> 16;
	}
	to[0] = (to[0] & 0xffff0000) | tag;
	to[3] = (to[3] & 0xffff) | (uint32_t)r->verdict << 16;
	to[4] = tag | (uint32_t)r->len << 16;
	to[7] = generation;
}

/* Processes a batch with inlined headers and writes its completions. Returns 0, with nothing
 * written, if a frame must be changed behind its header. */
DEVICE int complete_inline(const struct mailbox *m, const struct tile *tile, struct warp_scratch *scratch,
			   struct snapshot s, struct desc_word w, int active)
{
	uint32_t lane = lane_id(), part = lane % 2;
	uint32_t *row = rewritten_row(scratch, lane);
	struct frame f = {w.low, (uint16_t)w.high, (uint16_t)(w.high >> 16)};
	struct tables t = m->tables;
	int more = 0;

	t.hot = &scratch->hot;
	if (active) {
		struct candidate c = look_up(&t, s, f, tile->umem + f.addr, header_row(scratch, lane), HEADER_BYTES);
		more = c.partial_checksum && c.result.verdict >> 12 == ACTION_FORWARD;
		rewrite_untagged(&c, header_row(scratch, lane), row); /* the host adds the tag */
		make_completion(&c.result, tag_of(tile->number), s.generation, row);
	}
	if (unlikely(!__all_sync(FULL_MASK, !more)))
		return 0;
	__syncwarp();
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 2; i++) { /* two lanes per completion, so that whole sectors are written */
		uint32_t from = i * 16 + lane / 2;
		struct words4 v;
		if (!__shfl_sync(FULL_MASK, active, from))
			continue;
		for (uint32_t k = 0; k < 4; k++)
			v.w[k] = rewritten_row(scratch, from)[part * 4 + k];
		host_store128(tile->slot + m->completions + (tile->batch * WARP_SIZE + from) * COMPLETION_BYTES + part * 16, v);
	}
	__syncwarp();
	return 1;
}

#endif
