/* Sequence numbers by the device, for tiles with ASSIGN_SEQS: the host has lent it the numbers of outbound SAs, and posts
 * frames that it has not read. The device finds the tunnel of each packet (classify.h) and the tunnel's SA, takes a
 * number, and seals the packet, in one pass. Packets that it cannot seal are the host's.
 *
 * Numbers are in the order of the worker's packets: batches take them one after another (ticket_lock.h).
 *
 * If only the host can seal a packet, but its tunnel is known (TCP with an MSS option to lower), it gets a number like
 * the others, for the host to use (RESULT_HOST_SEALS). Behind any other packet of the host, all packets of the chunk are the
 * host's. It takes their numbers before the next chunk gets the lock. (If an SA has no numbers left, its packets alone are the
 * host's. The host extends loans before that, when REPORT_SEQS_LOW asks.)
 *
 * A tile with SEQ_REQUESTS has a request of the host per packet (struct seq_request), in place of a job, and a frame.
 *
 * Included by esp_batch.h. */
#ifndef WARPROUTE_SEQ_ASSIGN_H
#define WARPROUTE_SEQ_ASSIGN_H

#include "expect.h"
#include "heads.h"
#include "ticket_lock.h"

#define SEQS_RETIRED (1ull << 63)

/* Serves a request of the host about the sequence numbers of an SA (request.set in lend_requests.go). Returns the answer, which the
 * host reads in place of a result. */
DEVICE uint64_t serve_request(const struct ipsec_tables *ipsec, struct seq_request r, struct desc_word w)
{
	struct sa_seqs *n = ipsec->seqs + (r.key & JOB_KEY_MASK);
	uint64_t seq = (uint64_t)r.seq_high << 32 | r.seq_low, old = 0, last;
	uint32_t count = w.low;

	switch (r.what) {
	case REQUEST_LEND: /* count numbers up to seq, for packets as long as the frame at most */
		atomic_exchange64(&n->next, SEQS_RETIRED); /* if the host has revoked a loan */
		fence_acq_rel_sys();
		system_store64(&n->last, seq);
		fence_acq_rel_sys();
		old = atomic_exchange64(&n->next, seq - count + 1);
		fence_acq_rel_sys();
		system_store64(ipsec->tunnels + r.tunnel, (uint64_t)r.extended << SA_EXTENDED_SHIFT | (uint64_t)(w.high & 0xffff) << 32 | (r.key + 1));
		break;
	case REQUEST_EXTEND: /* up to seq */
		system_store64(&n->last, seq);
		break;
	case REQUEST_TAKE:
		last = system_load64(&n->last);
		if (last) /* loaded before next changes: see find_tunnel_sa */
			old = atomic_add64(&n->next, count);
		if (!last || old + count - 1 > last)
			old |= SEQS_RETIRED;
		break;
	case REQUEST_RETIRE:
		if ((uint32_t)system_load64(ipsec->tunnels + r.tunnel) == (r.key & JOB_KEY_MASK) + 1)
			system_store64(ipsec->tunnels + r.tunnel, 0);
		old = atomic_exchange64(&n->next, SEQS_RETIRED);
		break;
	}
	return old;
}

/* The packets of one SA in a batch: the lane that takes their numbers, how many, and this lane's place among them. */
struct sharers {
	uint32_t leader, count, place;
};

/* All lanes call it. Lanes without a packet that gets one have NO_SA. */
DEVICE struct sharers sharers_of(uint32_t key)
{
	struct sharers s = {0, 0, 0};
	uint32_t remaining = __ballot_sync(FULL_MASK, key != NO_SA);

	PRAGMA_UNROLL_1
	while (remaining) {
		uint32_t leader = lowest_bit(remaining);
		uint32_t same = __ballot_sync(FULL_MASK, key == __shfl_sync(FULL_MASK, key, leader) && key != NO_SA);
		if (same >> lane_id() & 1)
			s = (struct sharers){leader, __popc(same), __popc(same & lanes_before(lane_id()))};
		remaining &= ~same;
	}
	return s;
}

DEVICE uint64_t shuffle64(uint64_t v, uint32_t lane)
{
	return (uint64_t)__shfl_sync(FULL_MASK, (uint32_t)(v >> 32), lane) << 32 | __shfl_sync(FULL_MASK, (uint32_t)v, lane);
}

/* A packet that may get a sequence number of an SA. The job is to seal it, but has no number yet; its frame then begins at addr. If
 * the host seals it, the job is JOB_NONE. Without an SA, the packet is the host's: result. */
struct seq_candidate {
	struct job job;
	struct result result;
	uint32_t key; /* NO_SA: none */
	uint32_t addr;
	uint64_t last; /* sequence number that is lent */
};

/* Finds the SA of a packet, with a copy of its header. The last number of the loan is loaded before one is taken: otherwise
 * a number beyond the loan could look valid after the host has used it and has lent more. */
DEVICE_CALL struct seq_candidate find_tunnel_sa(const uint64_t *policies, const uint64_t *tunnels, const struct sa_seqs *seqs, const struct esp_key *keys,
						uint32_t *header, struct desc_word w, int clamp)
{
	struct seq_candidate n = {{0, 0, 0, 0, 0, JOB_NONE}, classify(policies, header, (uint8_t *)header + HEADER_IP, w, clamp), NO_SA, 0, 0};
	uint32_t at = w.low % FRAME_BYTES;

	if (!n.result.len || n.result.addr >= TUNNELS)
		return n;
	uint64_t sa = system_load64(tunnels + n.result.addr);
	if (!sa || n.result.len > (sa >> 32 & 0xffff))
		return n;
	uint32_t key = (uint32_t)sa - 1;
	const struct esp_key *k = keys + key;
	struct front front = front_of(k);
	n.job.esp = (uint16_t)(ETHERNET_LEN + front.outer);
	set_expected_length(&n.job, k, key, n.result.len, 0);
	n.last = system_load64(&seqs[key].last);
	if (!n.last || at < front.all || at - front.all + n.job.esp + n.job.bytes > FRAME_BYTES || load32(&k->tunnel) != n.result.addr)
		return n;
	n.key = key;
	if (n.result.verdict != RESULT_NEEDS_SEQ)
		return n;
	n.addr = w.low - front.all;
	n.job.flags = JOB_SEAL | JOB_ENCAPSULATE;
	if (sa >> SA_EXTENDED_SHIFT)
		n.job.flags |= JOB_EXTENDED;
	if ((load32(&k->headers) & (HEADERS_IPV6 | HEADERS_UDP)) == (HEADERS_IPV6 | HEADERS_UDP))
		n.job.flags |= JOB_UDP_CHECKSUM;
	return n;
}

/* Stores the result of a packet that the host seals, and the sequence number that the device has taken for it. */
DEVICE void store_host_seals(const struct mailbox *m, const struct tile *tile, uint32_t key, uint64_t seq)
{
	struct result r = {key, 0, RESULT_HOST_SEALS};

	report_seq(m, tile, seq);
	store_result(m, tile, r);
}

/* Returns the context of a lane whose packet is to be sealed with a sequence number that the device assigns, and moves w to the frame to
 * transmit. JOB_NONE: the lane has no packet, or it is the host's, and the result is stored. */
DEVICE struct esp_lane assigned_lane(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec, struct warp_scratch *scratch,
				     struct block_lock *block, struct desc_word *w, uint32_t flags)
{
	struct ticket_lock lock = {now_serving_of(ipsec, flags), released_of(m, flags), __shfl_sync(FULL_MASK, w->high, DESC_LINE_LANES), batch_count(flags)};
	int received = has_packet(tile);
	int mine = received && may_classify(*w) && !may_be_partial(&m->tables, (w->high >> 16) % MAX_PORTS);
	struct desc_word frame = *w;
	struct seq_candidate n = {{0, 0, 0, 0, 0, JOB_NONE}, {0, 0, RESULT_HOST}, NO_SA, 0, 0};

	read_heads(tile, scratch, frame, mine);
	if (mine)
		n = find_tunnel_sa(ipsec->policies, ipsec->tunnels, ipsec->seqs, ipsec->keys, header_in_head(scratch, frame), frame, (flags & CLAMP_MSS) != 0);
	uint32_t to_host = __ballot_sync(FULL_MASK, received && n.key == NO_SA);
	if (to_host && lane_id() > lowest_bit(to_host)) /* the host takes the numbers of all packets behind its first one */
		n.key = NO_SA;
	struct sharers s = sharers_of(n.key);
	/* Early if no packet is longer than a head: that shortens the latency of small packets. For longer ones, it lowered the rate of a
	 * saturated GPU unless the lock bounded it. So the host decides for each tile: LOCK_EARLY (releasesEarly in seq_assign.go). */
	int early = __all_sync(FULL_MASK, !received || (frame.high & 0xffff) <= HEAD_SEGMENTS * SEGMENT);
	int takes = n.key != NO_SA && s.place == 0;
	struct lock_release release = release_of(&lock, tile, to_host ? HOST_HOLDS : 0, early);
	uint64_t *next = &ipsec->seqs[n.key].next;

	uint32_t state = acquire_lock(&lock, block, tile);
	uint64_t first = take_and_release(&lock, block, tile, release, state, next, s.count, takes && !state);
	if (state)
		n.key = NO_SA;
	uint64_t seq = shuffle64(first, s.leader) + s.place;
	int assigned = n.key != NO_SA && seq <= n.last;
	if (!assigned || (n.job.flags & JOB_KIND) != JOB_SEAL) {
		n.job.flags = JOB_NONE;
		if (assigned)
			store_host_seals(m, tile, n.key, seq);
		else if (received)
			store_result(m, tile, n.result);
		return esp_lane_of(n.job, *w);
	}
	report_sa(m, tile, n.key, n.result.len | (n.last - seq < SEQS_LOW ? REPORT_SEQS_LOW : 0));
	n.job.seq_high = (uint32_t)seq; /* as set_job_seq does */
	n.job.ip_len = (uint16_t)(seq >> 32);
	w->low = n.addr;
	w->high = (w->high & 0xffff0000) | (n.job.esp + n.job.bytes);
	struct esp_lane c = esp_lane_of(n.job, *w);
	c.received = received_part(&c, frame);
	c.head = min32(HEAD_SEGMENTS, c.received.to - c.received.from);
	return c;
}

DEVICE struct job load_job(const struct mailbox *m, const struct tile *tile)
{
	struct job j = {0, 0, 0, 0, 0, JOB_NONE};

	if (has_packet(tile)) {
		struct words4 w = host_load128((const struct job *)(tile->slot + m->jobs) + packet_index(tile));
		j = (struct job){w.w[0], w.w[1], (uint16_t)w.w[2], (uint16_t)(w.w[2] >> 16), (uint16_t)w.w[3], (uint16_t)(w.w[3] >> 16)};
	}
	return j;
}

/* The request in the memory of a job, which has the same size. */
DEVICE struct seq_request request_of(struct job j) { return (struct seq_request){j.key, j.seq_high, j.esp, j.bytes, j.ip_len, j.flags}; }

/* Serves the requests of a batch. */
DEVICE void serve_batch(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec, struct desc_word w)
{
	struct job j = load_job(m, tile);

	if (has_packet(tile))
		host_store64((uint64_t *)(tile->slot + m->results) + packet_index(tile), serve_request(ipsec, request_of(j), w));
}

#endif
