/* A warp batch: up to 28 packets that one warp processes, one lane each. Reads their headers from
 * host memory, decides, and writes the changed bytes back. Included by lowlatency.h and esp_lane.h. */
#ifndef WARPROUTE_WARP_BATCH_H
#define WARPROUTE_WARP_BATCH_H

#include "decide.h"
#include "mailbox.h"
#include "warp.h"

/* Per-warp scratch in shared memory: the hot entries, and a row per lane with a copy of its packet's header and the rewritten
 * words, or on a gateway with its packet's head (heads.h). Rows have an odd number of words: lanes that access one row each use all banks. On a gateway,
 * the staging buffer takes the rows behind those of lanes that may have a packet (staging_of_batch in staging.h). */
#ifndef ROW_WORDS
#define ROW_WORDS (HEADER_BYTES / 4 + REWRITTEN_WORDS + 1)
#endif
static_assert(ROW_WORDS % 2 == 1, "lanes use all banks");
struct warp_scratch {
	struct hot_entries hot;
	uint32_t rows[WARP_SIZE][ROW_WORDS];
};

DEVICE uint32_t *header_row(struct warp_scratch *scratch, uint32_t lane) { return scratch->rows[lane]; }
DEVICE uint32_t *rewritten_row(struct warp_scratch *scratch, uint32_t lane) { return scratch->rows[lane] + HEADER_BYTES / 4; }

/* A lane's 8 bytes of the descriptors: a frame, or the tile's number and header in the first lane of
 * each cache line. */
struct desc_word {
	uint32_t low, high;
};

/* A lane's share of the headers of a batch: one 16-byte segment of each of four headers. before is the number of words
 * of the header's segments that are in front of it. */
struct header_segments {
	struct words4 segments[4];
	uint32_t before[4];
};

/* Table words loaded ahead of the decision: the snapshot, and a lane's share of the hot entries. */
struct prefetch {
	struct snapshot s;
	uint64_t next_hops[HOT_ENTRIES / WARP_SIZE], adjacencies[HOT_ENTRIES / WARP_SIZE], port;
	uint32_t ingress;
};

/* Whether tiles may have batches of which two cache lines are in use. Those of the forwarding kernel have 28 packets. */
#ifndef HALF_BATCHES
#define HALF_BATCHES 0
#endif

/* The number of lanes that read the descriptors of a batch of a tile: half of the warp, which is one request, if two cache lines have all of its
 * packets and words. */
DEVICE uint32_t descriptor_lanes(uint32_t tile_header)
{
	uint32_t each = (tile_header >> TILE_BATCH_SHIFT) % TILE_BATCH_PACKETS;
	return !HALF_BATCHES || each > HALF_BATCH_PACKETS || tile_header & EXPECT_SA ? WARP_SIZE : WARP_SIZE / 2;
}

/* Returns a lane's word of the descriptors of a batch, 0 if it is not one of the lanes that read them. */
DEVICE uint64_t load_descriptors(const uint64_t *descriptors, uint32_t batch_index, uint32_t lanes)
{
	return lane_id() < lanes ? host_load64(descriptors + batch_index * WARP_SIZE + lane_id()) : 0;
}

/* Sets w to the descriptors that a number of lanes have loaded. Returns 0 if they are not those of the tile with a number, or if more lanes must load
 * them; else the tile header with HALF_BATCHES, and 1 without. If the tile has come, it sets *lanes to the number that its batches need. */
DEVICE uint32_t accept_descriptors(uint64_t v, uint32_t number, uint32_t *lanes, struct desc_word *w)
{
	w->low = (uint32_t)v;
	w->high = (uint32_t)(v >> 32);
	if (!HALF_BATCHES)
		return __all_sync(FULL_MASK, __shfl_sync(FULL_MASK, w->low, lane_id() & ~(DESC_LINE_LANES - 1)) == number);
	uint32_t header = __shfl_sync(FULL_MASK, w->high, 0), needed = descriptor_lanes(header);
	uint32_t line = __shfl_sync(FULL_MASK, w->low, lane_id() & ~(DESC_LINE_LANES - 1));
	if (__shfl_sync(FULL_MASK, w->low, 0) != number)
		return 0;
	int loaded = *lanes >= needed;
	*lanes = needed;
	return __all_sync(FULL_MASK, loaded && (lane_id() >= needed || line == number)) ? header : 0;
}

/* Waits for the descriptors of a batch of the tile with a number. */
DEVICE void read_batch(const uint64_t *descriptors, uint32_t batch_index, uint32_t number, uint32_t lanes, struct desc_word *w)
{
	while (!accept_descriptors(load_descriptors(descriptors, batch_index, lanes), number, &lanes, w))
		;
}

/* Byte-wise read of a segment of a header that is not where ports and the removal of VLAN tags leave it. */
DEVICE struct words4 load_unaligned(const uint8_t *umem, uint32_t addr, uint32_t len, uint32_t from)
{
	struct words4 v = {{0, 0, 0, 0}};
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 16; i++) {
		uint32_t at = from + i;
		if (addr + at >= 2 && at < len + 2)
			v.w[i / 4] |= (uint32_t)host_load8(umem + addr + at - 2) << i % 4 * 8;
	}
	return v;
}

/* Returns whether a header can be read in segments of 16 bytes, from the multiple in front of it on: the copy then has a whole
 * IPv6 header. */
DEVICE int readable_in_segments(const struct tile *tile, uint32_t addr)
{
	return addr % 4 == 2 && words_before(addr) <= MAX_TAGS && addr <= tile->umem_bytes - HEADER_BYTES;
}

/* The lane whose header this lane reads as segments[i], and the number of the segment in it: four
 * lanes per frame make one 64-byte request to host memory. */
DEVICE uint32_t source_lane(uint32_t i) { return i * 8 + lane_id() / 4; }
DEVICE uint32_t header_segment(void) { return lane_id() % 4; }

/* Reads headers from the multiple of 16 bytes in front of them on: one request each, for the sectors that a header at that
 * multiple has. The last words of other headers are missing (copied_bytes). */
DEVICE struct header_segments read_headers(const struct tile *tile, struct desc_word w, int valid)
{
	struct header_segments h;
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t addr = __shfl_sync(FULL_MASK, w.low, source_lane(i));
		uint32_t len = __shfl_sync(FULL_MASK, w.high, source_lane(i)) & 0xffff;
		h.segments[i] = (struct words4){{0, 0, 0, 0}};
		h.before[i] = 0;
		if (!__shfl_sync(FULL_MASK, valid, source_lane(i)))
			continue;
		if (likely(readable_in_segments(tile, addr))) {
			h.before[i] = words_before(addr);
			h.segments[i] = host_load128(tile->umem + addr - 2 - 4 * h.before[i] + header_segment() * 16);
		} else {
			h.segments[i] = load_unaligned(tile->umem, addr, len, header_segment() * 16);
		}
	}
	return h;
}

/* Starts all table loads at once: generation is the value of an earlier load. */
DEVICE struct prefetch prefetch_tables(const struct tables *t, uint32_t generation)
{
	struct prefetch v;
	v.s = snapshot_at(t, generation);
	uint32_t at = lane_id() + (generation >> 31);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < HOT_ENTRIES / WARP_SIZE; i++) {
		v.next_hops[i] = load64(t->next_hops + i * WARP_SIZE + at);
		v.adjacencies[i] = load64(t->adjacencies + i * WARP_SIZE + at);
	}
	v.port = load64(t->ports + at);
	v.ingress = load32(t->ingress + at);
	return v;
}

/* Copies hot entries to the scratch. The caller synchronizes the warp. */
DEVICE void fill_hot_entries(struct warp_scratch *scratch, const struct prefetch *v)
{
	uint32_t lane = lane_id();
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < HOT_ENTRIES / WARP_SIZE; i++) {
		scratch->hot.next_hops[i * WARP_SIZE + lane] = v->next_hops[i];
		scratch->hot.adjacencies[i * WARP_SIZE + lane] = v->adjacencies[i];
	}
	scratch->hot.ports[lane] = v->port;
	scratch->hot.ingress[lane] = v->ingress;
}

/* Copies headers to the scratch, without what is in front of them. */
DEVICE void fill_headers(struct warp_scratch *scratch, const struct header_segments *h)
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		PRAGMA_UNROLL
		for (uint32_t k = 0; k < 4; k++)
			if (likely(header_segment() * 4 + k >= h->before[i]))
				header_row(scratch, source_lane(i))[header_segment() * 4 + k - h->before[i]] = h->segments[i].w[k];
}

/* Reads the word with the ports of IPv6 to the scratch, if read_headers has left it out: behind two VLAN tags. It is for
 * parsers of the copy alone. */
DEVICE void fill_ports(const struct tile *tile, struct warp_scratch *scratch, struct desc_word w, int valid)
{
	if (unlikely(valid && readable_in_segments(tile, w.low) && copied_bytes(w.low) <= 4 * PORTS_WORD))
		header_row(scratch, lane_id())[PORTS_WORD] = host_load32((const uint32_t *)(tile->umem + w.low - 2) + PORTS_WORD);
}

/* What a lane's packet changes of its frame: the first words of its row of rewritten ones, from 2 bytes before addr on. */
struct change {
	uint32_t addr, words; /* 0 words: nothing */
};

/* Returns what a forwarded packet, or one that is restored, changes. The last word never changes unless a tag has moved
 * it: it only completes the sector of an aligned header, and behind one removed VLAN tag, it would begin a second one. */
DEVICE struct change change_of(uint32_t addr, int tagged)
{
	uint32_t unchanged = words_before(addr) && !tagged;

	return (struct change){addr, REWRITTEN_WORDS - unchanged};
}

/* Writes all words of each changed frame, two lanes per frame. All are aligned to 16 bytes. */
DEVICE void store_headers_128(const struct tile *tile, struct warp_scratch *scratch, struct change change)
{
	__syncwarp();
	uint32_t part = lane_id() % 2;
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t from = i * 16 + lane_id() / 2;
		uint32_t addr = __shfl_sync(FULL_MASK, change.addr, from);
		if (!__shfl_sync(FULL_MASK, change.words, from))
			continue;
		struct words4 v;
		for (uint32_t k = 0; k < 4; k++)
			v.w[k] = rewritten_row(scratch, from)[part * 4 + k];
		host_store128(tile->umem + addr - 2 + part * 16, v);
	}
	__syncwarp();
}

/* Writes the words of each changed frame with eight lanes per frame: for frames that are usually aligned to 4 bytes. */
DEVICE void store_headers_32(const struct tile *tile, struct warp_scratch *scratch, struct change change)
{
	__syncwarp();
	uint32_t part = lane_id() % REWRITTEN_WORDS;
	PRAGMA_UNROLL_1
	for (uint32_t i = 0; i < WARP_SIZE; i += WARP_SIZE / REWRITTEN_WORDS) {
		uint32_t from = i + lane_id() / REWRITTEN_WORDS;
		uint32_t addr = __shfl_sync(FULL_MASK, change.addr, from);
		if (part >= __shfl_sync(FULL_MASK, change.words, from))
			continue;
		uint32_t v = rewritten_row(scratch, from)[part];
		if (likely(addr % 4 == 2)) {
			host_store32((uint32_t *)(tile->umem + addr - 2) + part, v);
		} else {
			for (uint32_t k = 0; k < 4; k++)
				if (part > 0 || k >= 2)
					host_store8(tile->umem + addr + 4 * part + k - 2, (uint8_t)(v >> 8 * k));
		}
	}
	__syncwarp();
}

/* Writes the same to the staging buffer, where frame is the lane's frame. */
DEVICE void store_headers_staged(struct warp_scratch *scratch, uint8_t *frame, int changed)
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < REWRITTEN_WORDS; i++)
		if (changed)
			((uint32_t *)(frame - 2))[i] = rewritten_row(scratch, lane_id())[i];
	__syncwarp();
}

/* Location and usual alignment of the frames of a batch: host memory with 16 or 4 bytes, or the
 * staging buffer. */
enum frame_access { ACCESS_128, ACCESS_32, ACCESS_STAGED };

DEVICE void store_headers(const struct tile *tile, struct warp_scratch *scratch, struct change change,
			  uint8_t *frame, enum frame_access access)
{
	if (access == ACCESS_STAGED)
		store_headers_staged(scratch, frame, change.words != 0);
	else if (access == ACCESS_128 && likely(__all_sync(FULL_MASK, !change.words || change.addr % 16 == 2)))
		store_headers_128(tile, scratch, change);
	else
		store_headers_32(tile, scratch, change);
}

/* The number of a lane's packet in its batch. Lanes 0, 8, 16 and 24 have none. */
DEVICE uint32_t place_in_batch(void) { return lane_id() / DESC_LINE_LANES * DESC_LINE_FRAMES + lane_id() % DESC_LINE_LANES - 1; }

DEVICE uint32_t packet_index(const struct tile *tile) { return tile->batch * tile->batch_packets + place_in_batch(); }

DEVICE int has_packet(const struct tile *tile)
{
	return lane_id() % DESC_LINE_LANES != 0 && place_in_batch() < tile->batch_packets && packet_index(tile) < tile->packets;
}

DEVICE void store_result(const struct mailbox *m, const struct tile *tile, struct result r)
{
	host_store64((uint64_t *)(tile->slot + m->results) + packet_index(tile), r.addr | (uint64_t)r.len << 32 | (uint64_t)r.verdict << 48);
}

/* Decides on the active packets of a batch, whose headers are in the scratch, and writes results
 * and changed frames. Results are posted before the generation check; if the tables changed they
 * are overwritten before the batch is reported as done. If a retry does not forward a packet that an
 * earlier attempt has forwarded, the store restores the original bytes, which decide has copied. */
DEVICE void process_batch(const struct mailbox *m, const struct tile *tile, struct warp_scratch *scratch,
			  struct snapshot s, struct desc_word w, uint8_t *frame, int active,
			  enum frame_access access)
{
	uint32_t lane = lane_id();
	struct frame f = {w.low, (uint16_t)w.high, (uint16_t)(w.high >> 16)};
	struct tables t = m->tables;
	int written = 0; /* an attempt has forwarded the packet: its frame is no longer as it was received */

	t.hot = &scratch->hot;
	do {
		struct decision d = {{0, 0, 0}, 0};
		struct change change = {0, 0};
		if (active) {
			d = decide(&t, s, f, frame, header_row(scratch, lane), rewritten_row(scratch, lane));
			store_result(m, tile, d.result);
			int forwarded = d.result.verdict >> 12 == ACTION_FORWARD, tagged = ADD_TAGS && forwarded && d.result.addr != w.low;
			written |= forwarded;
			if (written)
				change = change_of(w.low - (tagged ? TAG_LEN : 0), tagged);
		}
		store_headers(tile, scratch, change, frame, access);
		active = active && d.generation != s.generation;
		if (unlikely(active)) {
			t.hot = 0; /* the copy belongs to the previous snapshot */
			s = take_snapshot(&t);
		}
	} while (unlikely(!__all_sync(FULL_MASK, !active)));
}

/* Takes a snapshot, and copies the hot entries of the tables to the scratch. */
DEVICE struct snapshot load_tables(const struct mailbox *m, struct warp_scratch *scratch)
{
	struct prefetch v = prefetch_tables(&m->tables, load32(m->tables.generation));

	fill_hot_entries(scratch, &v);
	__syncwarp();
	return v.s;
}

/* Reads the headers of a batch's active packets from their frames and prefetches tables meanwhile.
 * Loads return in order, so table loads behind a host load wait for it; the generation is loaded
 * first. */
DEVICE struct snapshot load_headers(const struct mailbox *m, const struct tile *tile, struct warp_scratch *scratch,
				    struct desc_word w, int active)
{
	uint32_t generation = load32(m->tables.generation);
	struct header_segments h = read_headers(tile, w, active);
	struct prefetch v = prefetch_tables(&m->tables, generation);
	fill_hot_entries(scratch, &v);
	fill_headers(scratch, &h);
	__syncwarp();
	return v.s;
}

#endif
