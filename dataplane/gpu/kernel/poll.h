/* Polling of a mailbox slot by the warps of a block. Included by the resident entry kernels, which
 * define WARPS, the warps of a block. */
#ifndef WARPROUTE_POLL_H
#define WARPROUTE_POLL_H

#include "lowlatency.h"

struct shared {
	struct warp_scratch scratch[WARPS];
	/* Size word of the chunk that warp 0 found, by the parity of seq: the previous word stays
	 * valid until all warps have read the next one. */
	uint32_t size[2];
};

/* Polling consumes PCIe bandwidth. In a busy block every warp polls its own batch; in an idle one
 * only warp 0 polls, with a backoff. */
#define BUSY_POLLS 100 /* polls without a chunk, about 1 us each, before a block backs off */
#define BACKOFF_NS 2000

/* Poll hint: batches of the previous chunk, and its header format: 0, INLINE_HEADERS or
 * INLINE_SHORT_HEADERS. */
struct poll_hint {
	uint32_t batches, headers;
};

DEVICE struct poll_hint poll_hint_of(uint32_t size) { return (struct poll_hint){batch_count(packet_count(size)), size & (INLINE_HEADERS | INLINE_SHORT_HEADERS)}; }

/* Poll result of one warp. */
struct poll_result {
	int ready; /* the warp's batch has arrived: w is valid */
	struct desc_word w;
	int headers_loaded; /* inlined headers are in the scratch, with snapshot s */
	struct snapshot s;
	int completed; /* all packets of the batch are completed */
};

/* Polls once for a batch of chunk seq and, unless headers is 0, for its inlined headers in that
 * format. Table words are prefetched meanwhile. *generation is that of the previous poll, and is
 * updated. */
DEVICE void poll_batch(const struct mailbox *m, struct shared *sh, const uint8_t *slot, uint32_t seq,
		       uint32_t headers, uint32_t *generation, struct poll_result *poll)
{
	uint32_t batch = warp_id(), later = *generation;
	struct header_segments h;
	struct prefetch p;

	if (headers) {
		later = load32(m->tables.generation);
		p = prefetch_tables(&m->tables, *generation);
	}
	uint64_t v = host_load64((const uint64_t *)(slot + m->descriptors) + batch * WARP_SIZE + lane_id());
	if (headers)
		h = read_inline_headers(m, slot, batch, headers);
	*generation = later;
	poll->w.low = (uint32_t)v;
	poll->w.high = (uint32_t)(v >> 32);
	if (!__all_sync(FULL_MASK, __shfl_sync(FULL_MASK, poll->w.low, lane_id() & ~(DESC_LINE_LANES - 1)) == seq))
		return;
	uint32_t size = __shfl_sync(FULL_MASK, poll->w.high, 0);
	poll->ready = 1;
	if (batch == 0 && lane_id() == 0)
		sh->size[seq % 2] = size;
	if (headers && size != STOP && size & headers && inline_headers_match(&h, headers, seq, has_packet(batch, packet_count(size)))) {
		fill_hot_entries(&sh->scratch[batch], &p);
		fill_inline_headers(&sh->scratch[batch], &h, headers);
		__syncwarp();
		poll->headers_loaded = 1;
		poll->s = p.s;
	}
}

/* Polls once for this warp's batch, and completes it if its headers are inlined. */
DEVICE void poll_once(const struct mailbox *m, struct shared *sh, uint8_t *slot, uint32_t seq,
		      uint32_t headers, uint32_t *generation, struct poll_result *poll)
{
	uint32_t batch = warp_id();

	if (headers == INLINE_SHORT_HEADERS) /* one instance per format, each with its own registers */
		poll_batch(m, sh, slot, seq, INLINE_SHORT_HEADERS, generation, poll);
	else if (headers == INLINE_HEADERS)
		poll_batch(m, sh, slot, seq, INLINE_HEADERS, generation, poll);
	else
		poll_batch(m, sh, slot, seq, 0, generation, poll);
	if (poll->headers_loaded)
		poll->completed = complete_inline(m, &sh->scratch[batch], poll->s, slot, seq, batch, poll->w, has_packet(batch, packet_count(__shfl_sync(FULL_MASK, poll->w.high, 0))));
}

/* Waits for chunk seq. All warps poll at the same time, so that no warp starts a poll later than
 * the others. */
DEVICE struct poll_result wait_for_chunk(const struct mailbox *m, struct shared *sh, uint8_t *slot,
					uint32_t seq, struct poll_hint hint)
{
	struct poll_result poll = {0, {0, 0}, 0, {0, 0, 0}, 0};
	uint32_t warp = warp_id(), generation = load32(m->tables.generation);

	for (uint32_t polls = 0;; polls++) {
		int busy = polls < BUSY_POLLS;
		if (!poll.ready && (warp == 0 || (busy && warp < hint.batches)))
			poll_once(m, sh, slot, seq, busy && warp < INLINE_BATCHES ? hint.headers : 0, &generation, &poll);
		if (__syncthreads_or(warp == 0 && poll.ready))
			return poll;
		if (!busy)
			__nanosleep(BACKOFF_NS);
	}
}

#endif
