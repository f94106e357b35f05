/* Polling of a mailbox slot by the warps of a block. Included by the resident entry kernels. */
#ifndef WARPROUTE_POLL_H
#define WARPROUTE_POLL_H

#include "lowlatency.h"

/* Returns the slot of the block's tile with a number. depth is the number of slots per block. */
DEVICE uint8_t *slot_of(const struct mailbox *m, uint32_t depth, uint32_t number) { return m->slots + (uint64_t)(blockIdx.x * depth + number % depth) * m->slot_bytes; }

/* Polling consumes PCIe bandwidth. Blocks that the host does not use poll a word of device memory
 * instead of their slots: the watcher copies it from the host. Of awake blocks, every warp of a busy
 * one polls its own batch; in an idle one only the one with the first batch, with a backoff. In a busy block of a gateway, a warp that
 * has just become free polls once if the tile before had as many batches, then only the one with the first batch, unless inlined headers are expected: read requests limit the rate of long ESP packets (docs/design/gpu.md, "What bounds it").
 * If the tile comes later, the other warps read their batches one PCIe round trip after it. While others process batches, it polls rarely. */
#define BUSY_POLLS 100 /* polls without a tile, about 1 us each, before a block, or a free warp of a gateway, backs off */
#define BACKOFF_NS 2000
#define RARE_POLLS 16 /* a warp polls in one of so many rounds of CLAIM_NS while others of the block process batches */
#define CLAIM_NS 400 /* between a warp's looks at the newest tile in shared memory */
#define ASLEEP_NS 500
#define WATCH_NS 500

/* Copies the number of awake blocks from host memory until the host stops the kernel. */
DEVICE void watch(const struct mailbox *m)
{
	for (uint32_t v = 0; v != STOP;) {
		v = host_load32(m->control);
		store32(m->awake, v);
		__nanosleep(WATCH_NS);
	}
}

/* Poll hint: batches of the previous tile, the lanes that read the descriptors of one, and its header format: 0, INLINE_HEADERS or
 * INLINE_SHORT_HEADERS. */
struct poll_hint {
	uint32_t batches, lanes, headers;
};

#define FIRST_HINT ((struct poll_hint){1, WARP_SIZE, 0})

DEVICE struct poll_hint poll_hint_of(uint32_t tile_header)
{
	return (struct poll_hint){batch_count(tile_header), descriptor_lanes(tile_header), tile_header & (INLINE_HEADERS | INLINE_SHORT_HEADERS)};
}

/* Poll result of one warp. */
struct poll_result {
	int ready; /* the warp's batch has arrived: w and header are valid */
	uint32_t header; /* tile header */
	uint32_t lanes; /* that read descriptors */
	struct desc_word w;
	int headers_loaded; /* inlined headers are in the scratch, with snapshot s */
	struct snapshot s;
	int completed; /* all packets of the batch are completed */
};

/* Words of device memory that change: each poll loads them for the next one, as a load from host
 * memory takes longer. */
struct polled_words {
	uint32_t generation, awake;
};

DEVICE struct polled_words poll_words(const struct mailbox *m) { return (struct polled_words){load32(m->tables.generation), load32(m->awake)}; }

#define NO_RESULT(lanes) ((struct poll_result){0, 0, lanes, {0, 0}, 0, {0, 0, 0}, 0})

/* Polls once for a batch of a tile and, unless headers is 0, for its inlined headers in that
 * format. Table words are prefetched meanwhile. *words are those of the previous poll, and are
 * updated. So the snapshot has the generation of the previous poll. An older snapshot is safe: the tables are loaded after
 * that generation, and the host refuses completions of a generation that is no longer the current one. */
DEVICE void poll_batch(const struct mailbox *m, struct warp_scratch *scratch, uint8_t *slot, uint32_t number, uint32_t batch_index,
		       uint32_t headers, struct polled_words *words, struct poll_result *poll)
{
	struct polled_words later = poll_words(m);
	struct header_segments h;
	struct prefetch p;

	if (headers)
		p = prefetch_tables(&m->tables, words->generation);
	uint64_t v = load_descriptors((const uint64_t *)(slot + m->descriptors), batch_index, poll->lanes);
	if (headers)
		h = read_inline_headers(m, slot, batch_index, headers);
	*words = later;
	uint32_t accepted = accept_descriptors(v, number, &poll->lanes, &poll->w);
	if (!accepted)
		return;
	poll->header = HALF_BATCHES ? accepted : __shfl_sync(FULL_MASK, poll->w.high, 0);
	poll->ready = 1;
	if (!headers || !(poll->header & headers))
		return;
	struct tile tile = tile_of(m, slot, number, poll->header, batch_index);
	if (inline_headers_match(&h, headers, number, has_packet(&tile))) {
		fill_hot_entries(scratch, &p);
		fill_inline_headers(scratch, &h, headers);
		__syncwarp();
		poll->headers_loaded = 1;
		poll->s = p.s;
	}
}

/* Polls once for a batch of a tile, as poll_batch. */
DEVICE void poll_once(const struct mailbox *m, struct warp_scratch *scratch, uint8_t *slot, uint32_t number, uint32_t batch_index,
		      uint32_t headers, struct polled_words *words, struct poll_result *poll)
{
	if (headers == INLINE_SHORT_HEADERS) /* one instance per format, each with its own registers */
		poll_batch(m, scratch, slot, number, batch_index, INLINE_SHORT_HEADERS, words, poll);
	else if (headers == INLINE_HEADERS)
		poll_batch(m, scratch, slot, number, batch_index, INLINE_HEADERS, words, poll);
	else
		poll_batch(m, scratch, slot, number, batch_index, 0, words, poll);
}

/* Completes the batch that a poll has found, if its inlined headers are in the scratch. */
DEVICE void complete_polled(const struct mailbox *m, struct warp_scratch *scratch, uint8_t *slot, uint32_t number, uint32_t batch_index, struct poll_result *poll)
{
	if (poll->headers_loaded) {
		struct tile tile = tile_of(m, slot, number, poll->header, batch_index);
		poll->completed = complete_inline(m, &tile, scratch, poll->s, poll->w, has_packet(&tile));
	}
}

/* Orders a lane's stores of results and frames before the store of done by lane 0, as seen by the
 * host, and stores it. */
DEVICE void report_batch(const struct tile *tile)
{
	fence_acq_rel_sys();
	__syncwarp();
	if (lane_id() == 0)
		host_store32((uint32_t *)tile->slot + tile->batch, tile->number);
}

#endif
