/* Polling of a mailbox slot by the warps of a block. Included by the resident entry kernels. */
#ifndef WARPROUTE_POLL_H
#define WARPROUTE_POLL_H

#include "lowlatency.h"

struct shared {
	/* Header of the tile that warp 0 found, by the parity of its number: the previous one stays
	 * valid until all warps have read the next one. */
	uint32_t tile_header[2];
	uint32_t lock[2]; /* of a gateway: struct block_lock (ticket_lock.h) */
	struct warp_scratch scratch[]; /* by warp */
};

static_assert(sizeof(struct shared) == SHARED_HEADER, "the host allocates it");

/* Returns the slot of the block's tile with a number. depth is the number of slots per block. */
DEVICE uint8_t *slot_of(const struct mailbox *m, uint32_t depth, uint32_t number) { return m->slots + (uint64_t)(blockIdx.x * depth + number % depth) * m->slot_bytes; }

/* Polling consumes PCIe bandwidth. Blocks that the host does not use poll a word of device memory
 * instead of their slots: the watcher copies it from the host. Of awake blocks, every warp of a busy
 * one polls its own batch; in an idle one only warp 0 polls, with a backoff. In a busy block of a gateway, all warps poll once, then only
 * warp 0, unless inlined headers are expected: read requests limit the rate of long ESP packets (docs/design/gpu.md, "What bounds it").
 * If the tile comes later, the other warps read their batches one PCIe round trip after warp 0. */
#define BUSY_POLLS 100 /* polls without a tile, about 1 us each, before a block backs off */
#define BACKOFF_NS 2000
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
	int ready; /* the warp's batch has arrived: w is valid */
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

/* Polls once for a batch of a tile and, unless headers is 0, for its inlined headers in that
 * format. Table words are prefetched meanwhile. *words are those of the previous poll, and are
 * updated. So the snapshot has the generation of the previous poll. An older snapshot is safe: the tables are loaded after
 * that generation, and the host refuses completions of a generation that is no longer the current one. */
DEVICE void poll_batch(const struct mailbox *m, struct shared *sh, uint8_t *slot, uint32_t number,
		       uint32_t headers, struct polled_words *words, struct poll_result *poll)
{
	uint32_t batch_index = warp_id();
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
	uint32_t tile_header = HALF_BATCHES ? accepted : __shfl_sync(FULL_MASK, poll->w.high, 0);
	poll->ready = 1;
	if (batch_index == 0 && lane_id() == 0)
		sh->tile_header[number % 2] = tile_header;
	if (!headers || !(tile_header & headers))
		return;
	struct tile tile = tile_of(m, slot, number, tile_header);
	if (inline_headers_match(&h, headers, number, has_packet(&tile, batch_index))) {
		fill_hot_entries(&sh->scratch[batch_index], &p);
		fill_inline_headers(&sh->scratch[batch_index], &h, headers);
		__syncwarp();
		poll->headers_loaded = 1;
		poll->s = p.s;
	}
}

/* Polls once for this warp's batch, and completes it if its headers are inlined. */
DEVICE void poll_once(const struct mailbox *m, struct shared *sh, uint8_t *slot, uint32_t number,
		      uint32_t headers, struct polled_words *words, struct poll_result *poll)
{
	uint32_t batch_index = warp_id();

	if (headers == INLINE_SHORT_HEADERS) /* one instance per format, each with its own registers */
		poll_batch(m, sh, slot, number, INLINE_SHORT_HEADERS, words, poll);
	else if (headers == INLINE_HEADERS)
		poll_batch(m, sh, slot, number, INLINE_HEADERS, words, poll);
	else
		poll_batch(m, sh, slot, number, 0, words, poll);
	if (poll->headers_loaded) {
		struct tile tile = tile_of(m, slot, number, __shfl_sync(FULL_MASK, poll->w.high, 0));
		poll->completed = complete_inline(m, &tile, &sh->scratch[batch_index], poll->s, batch_index, poll->w, has_packet(&tile, batch_index));
	}
}

/* Waits for the tile with a number, or for the end of the kernel, which has the tile header STOP. Warps poll at
 * the same time, so that none starts a poll later than the others. Warp 0 polls until the tile comes, the others only in the first
 * polls_of_all rounds (at most BUSY_POLLS). */
DEVICE struct poll_result wait_for_tile(const struct mailbox *m, struct shared *sh, uint8_t *slot,
					uint32_t number, struct poll_hint hint, uint32_t polls_of_all)
{
	struct poll_result poll = {0, hint.lanes, {0, 0}, 0, {0, 0, 0}, 0};
	uint32_t warp = warp_id();
	struct polled_words words = poll_words(m);

	for (uint32_t polls = 0;; polls++) {
		int asleep = blockIdx.x >= words.awake, busy = polls < BUSY_POLLS;
		if (words.awake == STOP) {
			if (threadIdx.x == 0)
				sh->tile_header[number % 2] = STOP;
			poll.ready = 1;
		} else if (asleep) {
			words = poll_words(m);
			polls = 0;
		} else if (!poll.ready && (warp == 0 || (polls < polls_of_all && warp < hint.batches))) {
			poll_once(m, sh, slot, number, busy && warp < INLINE_BATCHES ? hint.headers : 0, &words, &poll);
		}
		if (__syncthreads_or(warp == 0 && poll.ready))
			return poll;
		if (asleep || !busy)
			__nanosleep(asleep ? ASLEEP_NS : BACKOFF_NS);
	}
}

/* Orders a lane's stores of results and frames before the store of done by lane 0, as seen by the
 * host, and stores it. */
DEVICE void report_batch(const struct tile *tile, uint32_t batch_index)
{
	fence_acq_rel_sys();
	__syncwarp();
	if (lane_id() == 0)
		host_store32((uint32_t *)tile->slot + batch_index, tile->number);
}

#endif
