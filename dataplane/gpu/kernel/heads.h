/* Heads: the first sectors of received frames, from which the device finds the SAs of packets to seal. A head is one PCIe request if the
 * frame begins in the first sector of a 128-byte line. The row of a lane in the scratch keeps the head of its packet until the packet is staged,
 * so that no byte is read twice. Included by seq_assign.h. */
#ifndef WARPROUTE_HEADS_H
#define WARPROUTE_HEADS_H

#include "staging.h"

#define HEAD_SEGMENTS 8

static_assert(HEAD_SEGMENTS % SECTOR_SEGMENTS == 0 && HEAD_SEGMENTS * SEGMENT_WORDS <= ROW_WORDS, "a row has room for a head");
static_assert(HEAD_SEGMENTS * SEGMENT >= SECTOR - 4 + 4 * (PORTS_WORD + 1), "a head has addresses and ports wherever the header begins in its sector");

/* The lane whose head this lane reads a segment of, the i-th that it reads, and the number of that segment: adjacent lanes make one request. */
DEVICE uint32_t head_lane(uint32_t i) { return (i * WARP_SIZE + lane_id()) / HEAD_SEGMENTS; }
DEVICE uint32_t head_segment(uint32_t i) { return (i * WARP_SIZE + lane_id()) % HEAD_SEGMENTS; }

/* Reads the heads of frames to the rows of their lanes. Segments behind the end of a frame are 0. */
DEVICE void read_heads(const struct tile *tile, struct warp_scratch *scratch, struct desc_word w, int valid)
{
	struct words4 v[HEAD_SEGMENTS];
	uint32_t start = first_sector(w.low), end = valid ? w.low + (w.high & 0xffff) : 0;

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < HEAD_SEGMENTS; i++) {
		uint32_t addr = __shfl_sync(FULL_MASK, start, head_lane(i)) + head_segment(i) * SEGMENT;
		v[i] = (struct words4){{0, 0, 0, 0}};
		if (addr < __shfl_sync(FULL_MASK, end, head_lane(i)))
			v[i] = host_load128(tile->umem + addr);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < HEAD_SEGMENTS; i++)
		PRAGMA_UNROLL
		for (uint32_t k = 0; k < SEGMENT_WORDS; k++)
			scratch->rows[head_lane(i)][head_segment(i) * SEGMENT_WORDS + k] = v[i].w[k];
	__syncwarp();
}

/* The copy of the header that the head of a lane's frame has. */
DEVICE uint32_t *header_in_head(struct warp_scratch *scratch, struct desc_word w) { return scratch->rows[lane_id()] + (w.low - first_sector(w.low)) / 4; }

/* Copies the heads of a set's packets to the staging buffer. Nothing else is written there before load_staged_set synchronizes the warp. */
DEVICE void place_heads(const struct staging *s, const struct warp_scratch *scratch, const struct staged_set *g, const struct esp_lane *c)
{
	uint32_t *words = s->words + c->at + c->received.from * SEGMENT_WORDS;

	if (g->lanes >> lane_id() & 1)
		for (uint32_t i = 0; i < c->head * SEGMENT_WORDS; i++)
			words[i] = scratch->rows[lane_id()][i];
}

#endif
