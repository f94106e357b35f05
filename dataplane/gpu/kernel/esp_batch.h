/* ESP processing of a warp batch before its lookup. Included by gateway.cu. */
#ifndef WARPROUTE_ESP_BATCH_H
#define WARPROUTE_ESP_BATCH_H

#include "encapsulate.h"
#include "seq_assign.h"

/* Clears the segments of a lane's packet that were not loaded: those in front of its IP header, ip bytes from the first segment on, and all
 * behind the received frame. The trailer is written later. */
DEVICE void clear_around(const struct staging *s, const struct esp_lane *c, uint32_t ip)
{
	uint32_t *words = s->words + c->at, end = c->segments * SEGMENT_WORDS;

	for (uint32_t i = 0; i < min32(c->received.from * SEGMENT_WORDS, ip / 4); i++)
		words[i] = 0;
	for (uint32_t i = c->received.to * SEGMENT_WORDS; i < end; i++)
		words[i] = 0;
}

/* Prepares a lane's packet once it is staged, and fails it if the staged key does not match the
 * job. The key record may be reused while a timed-out device still runs; no more of it is staged
 * than the job says. */
DEVICE void begin_packet(const struct esp_key *keys, const struct staging *s, const struct aes_tables *t, struct esp_lane *c, uint32_t addr)
{
	const struct esp_key *k = staged_key(s, c->key);
	uint32_t frame = addr - c->start;
	struct esp_packet p;

	c->esp = c->at + (frame + c->job.esp) / 4;
	c->failed = key_segments(k, &c->job) != c->job.key >> JOB_KEY_SEGMENTS_SHIFT;
	if (!c->failed && job_kind(&c->job) == JOB_SEAL && c->job.flags & JOB_ENCAPSULATE) {
		clear_around(s, c, frame + ETHERNET_LEN);
		c->failed = encapsulate(&keys[c->job.key & JOB_KEY_MASK], k, s->words + c->at, &c->job, frame + ETHERNET_LEN, frame + c->job.esp);
		keep_seq_high(&c->job);
	}
	c->failed = c->failed || !esp_packet_at(&p, k, s->words + c->esp, c->job.bytes, 0, c->job.seq_high);
	if (c->failed)
		return;
	c->text = p.words;
	if (job_kind(&c->job) == JOB_SEAL)
		esp_encrypt_iv(k, t, &p);
}

/* Finishes a lane's packet: copies the header of the packet to forward to the scratch, sets w to
 * its frame, and *segments to the range to write back. Returns the drop reason. */
DEVICE uint32_t finish_packet(const struct ipsec_tables *ipsec, const struct staging *s, struct warp_scratch *scratch, struct esp_lane *c,
			      struct desc_word *w, struct segments *segments)
{
	uint32_t *words = s->words + c->at;
	uint32_t ip = w->low + ETHERNET_LEN - c->start, esp = w->low + c->job.esp - c->start, end = esp + c->job.bytes;

	if (job_kind(&c->job) == JOB_SEAL) {
		if (c->failed)
			return DROP_XFRM_OUT_STATE_PROTO_ERROR;
		if (c->job.flags & JOB_UDP_CHECKSUM)
			set_udp6_checksum(words, ip, esp - 8, 8u + c->job.bytes);
	} else {
		const struct esp_key *k = staged_key(s, c->key);
		struct inner in = {0, 0, 0};
		if (c->failed)
			return DROP_XFRM_IN_STATE_PROTO_ERROR;
		uint32_t text = esp + 4 * (ESP_HEADER_WORDS + k->iv_words);
		uint32_t reason = decapsulate(words, &c->job, ip, text, 4 * c->text, &in);
		if (reason != DROP_NONE)
			return reason;
		if (policies_admit(ipsec->policies, words, &in, load32(&ipsec->keys[c->job.key & JOB_KEY_MASK].tunnel)))
			c->admitted = RESULT_ADMITTED;
		ip = in.ip;
		words[ip / 4 - 1] = (words[ip / 4 - 1] & 0xffff) | bswap16(in.type) << 16;
		w->low = c->start + ip - ETHERNET_LEN;
		w->high = (w->high & 0xffff0000) | (ETHERNET_LEN + in.size);
		end = ip + in.size;
	}
	*segments = (struct segments){(ip - HEADER_IP) / SECTOR * SECTOR_SEGMENTS, (end + SECTOR - 1) / SECTOR * SECTOR_SEGMENTS};
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < HEADER_BYTES / 4; i++)
		header_row(scratch, lane_id())[i] = words[(ip - HEADER_IP) / 4 + i];
	return DROP_NONE;
}

/* Makes the jobs of a staged set's packets, and removes the packets that are the host's. Returns the number of
 * segments of their keys, to load. */
DEVICE uint32_t find_staged_set(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec, const struct staging *s,
			    struct staged_set *g, struct esp_lane *c, struct desc_word w, uint32_t flags)
{
	if (g->lanes >> lane_id() & 1) {
		uint32_t *header = s->words + c->at + (w.low - 2 - c->start) / 4;
		struct found_job found = find_job(ipsec->spis, ipsec->keys, header, w.high & 0xffff);
		if (found.job.key >> JOB_KEY_SEGMENTS_SHIFT <= largest_key(c->segments)) /* the record may be reused, as in begin_packet */
			c->job = found.job;
		if (job_kind(&c->job) == JOB_OPEN) {
			report_sa(m, tile, c->job.key & JOB_KEY_MASK, found.seq);
		} else {
			struct result r = {0, 0, RESULT_HOST};
			if (flags & CLASSIFY && !may_be_partial(&m->tables, (w.high >> 16) % MAX_PORTS))
				r = classify(ipsec->policies, header, (uint8_t *)header + HEADER_IP, w, (flags & CLAMP_MSS) != 0);
			store_result(m, tile, r);
		}
	}
	g->lanes &= __ballot_sync(FULL_MASK, job_kind(&c->job) == JOB_OPEN);
	return place_keys(s, g, c);
}

/* Matches a staged set's packets with the expected SA, removes those that are not of it, and moves w to the frames of
 * packets to seal. */
DEVICE void match_staged_set(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec, const struct staging *s,
			     struct staged_set *g, struct esp_lane *c, struct desc_word *w, uint32_t flags)
{
	struct expected e = expected_sa(*w);

	if (g->lanes >> lane_id() & 1) {
		struct matched r = match_expected(ipsec->policies, ipsec->spis, ipsec->keys, c->job, s->words + c->at + (w->low - 2 - c->start) / 4, *w, e, place_in_batch(),
						  (flags & CLAMP_MSS) != 0);
		c->job = r.job;
		if (job_kind(&c->job) >= JOB_SEAL)
			report_sa(m, tile, expected_key(&e), r.word);
		else
			store_result(m, tile, r.result);
		if (job_kind(&c->job) == JOB_SEAL) {
			w->low -= front_of(ipsec->keys + expected_key(&e)).all;
			w->high = (w->high & 0xffff0000) | (c->job.esp + c->job.bytes);
		}
	}
	g->lanes &= __ballot_sync(FULL_MASK, job_kind(&c->job) >= JOB_SEAL);
}

/* Seals or opens the staged packets of a batch and updates w. Returns whether the lane's packet is
 * to be looked up, and written back afterwards: *segments. Results of dropped packets are stored. With FIND_SAS, the first loop
 * loads packets in its first round, and in its second the keys that find_staged_set has found; find = 0 ends it there. Otherwise
 * one round loads both. */
DEVICE int crypt_staged_set(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec,
			    const struct staging *s, const struct aes_tables *t, struct warp_scratch *scratch,
			    struct staged_set *g, struct esp_lane *c, struct desc_word *w, struct segments *segments, uint32_t flags)
{
	uint32_t reason = DROP_NONE;

	PRAGMA_UNROLL_1
	for (uint32_t load = g->segments, find = flags & FIND_SAS; load; find = 0) {
		load_staged_set(tile, ipsec->keys, s, c, load);
		load = find ? find_staged_set(m, tile, ipsec, s, g, c, *w, flags) : 0;
	}
	if (flags & EXPECT_SA)
		match_staged_set(m, tile, ipsec, s, g, c, w, flags);
	int mine = g->lanes >> lane_id() & 1;
	if (mine)
		begin_packet(ipsec->keys, s, t, c, w->low);
	__syncwarp();
	uint32_t gcm = __ballot_sync(FULL_MASK, mine && staged_key(s, c->key)->cipher == ESP_GCM), others = g->lanes & ~gcm;
	PRAGMA_UNROLL_1
	for (uint32_t left = gcm; left;) {
		struct bin b = next_bin(c, left);
		gcm_by_subwarps(s, t, c, b.lanes, min32(subwarp_size(&b), g->most_lanes));
		left &= ~b.lanes;
	}
	PRAGMA_UNROLL_1
	for (int after = others ? 0 : 2; after < 2; after++) { /* 0: before the lanes' own work, 1: after it, as in crypt.h */
		crypt_by_warp(s, t, c, others, after);
		__syncwarp();
		if (!after)
			cbc_encrypt_batch(s, t, c, mine);
		if (mine && !after && !c->failed)
			authenticate_by_lane(s, c);
		__syncwarp();
	}
	if (mine)
		reason = finish_packet(ipsec, s, scratch, c, w, segments);
	if (mine && reason != DROP_NONE) {
		struct result r = {0, (uint16_t)(c->failed ? JOB_ICV_FAILED : 0), (uint16_t)verdict(ACTION_DROP, reason)};
		store_result(m, tile, r);
	}
	__syncwarp();
	return mine && reason == DROP_NONE;
}

/* Returns the context of a lane whose packet is expected to be of an SA, JOB_NONE if it is the host's. All of them
 * share one key in the staging buffer, that of the longest. */
DEVICE struct esp_lane expected_lane(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec, struct desc_word w)
{
	struct expected e = expected_sa(w);
	struct expected_job x = {{0, 0, 0, 0, 0, JOB_NONE}, w.low};

	if (has_packet(tile) && may_classify(w) && (e.high & EXPECT_OPEN || !may_be_partial(&m->tables, (w.high >> 16) % MAX_PORTS)))
		x = expected_frame(ipsec->keys, w, e);
	uint32_t key = subwarp_max(x.job.key, WARP_SIZE);
	struct esp_lane c = lane_of(x.job, x.addr, x.job.esp + x.job.bytes);
	c.received = received_part(&c, w);
	c.job.key = key;
	return c;
}

/* Returns the context of a lane, and updates w: the device has made the job if flags say so, else the host. */
DEVICE struct esp_lane begin_lane(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec, struct warp_scratch *scratch,
				  struct block_lock *block, struct desc_word *w, uint32_t flags)
{
	if (flags & EXPECT_SA)
		return expected_lane(m, tile, ipsec, *w);
	if (flags & FIND_SAS)
		return received_lane_of(*w);
	if (!(flags & HAS_JOBS))
		return assigned_lane(m, tile, ipsec, scratch, block, w, flags);
	return esp_lane_of(load_job(m, tile), *w);
}

/* Processes a batch with ESP jobs: first packets without a job, in place; then those with one, as
 * many at a time as the staging buffer holds. Each is written back once, after its lookup. flags are those of the
 * tile header: with FIND_SAS, EXPECT_SA or ASSIGN_SEQS, the device makes the jobs. */
DEVICE void process_esp_batch(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec,
			      const struct staging *warp_staging, const struct aes_tables *t, struct warp_scratch *scratch,
			      struct block_lock *block, struct desc_word w, uint32_t flags)
{
	int find = (flags & FIND_SAS) != 0;
	struct esp_lane c = begin_lane(m, tile, ipsec, scratch, block, &w, flags);
	int received = flags & (FIND_SAS | EXPECT_SA) && has_packet(tile), staged = find ? received && may_classify(w) : job_kind(&c.job) >= JOB_SEAL;
	uint32_t pending = __ballot_sync(FULL_MASK, staged);
	int active = job_kind(&c.job) == JOB_PLAIN;
	struct snapshot s = flags & HAS_JOBS ? load_headers(m, tile, scratch, w, active) : load_tables(m, scratch);
	struct staging staging = staging_of_batch(warp_staging, tile->batch_packets);
	struct staged_set g = {0, 0, staging.size, 0};
	struct segments segments = {0, 0};
	uint8_t *frame = tile->umem + w.low;

	if (received && !staged) {
		struct result r = {0, 0, RESULT_HOST};
		store_result(m, tile, r);
	}
	/* Each round first finishes the previous set: it looks up its packets, writes them back and erases its keys; the first round has none,
	 * and looks up the packets without a job. Then it stages, and seals or opens, the next set. c.admitted, which that sets, goes into the
	 * address of the result that the next round stores. */
	PRAGMA_UNROLL_1
	for (;;) {
		uint32_t looked_up = __ballot_sync(FULL_MASK, active);
		if (looked_up)
			process_batch(m, tile, scratch, s, w, frame, active, g.lanes ? ACCESS_STAGED : ACCESS_32);
		store_packets(tile, &staging, &c, g.lanes & looked_up, segments);
		zero_keys(&staging, &g);
		if (!pending)
			return;
		g = place_packets(&staging, pending, &c, find);
		place_heads(&staging, scratch, &g, &c);
		if (!g.lanes)
			return; /* the staging buffer is too small for a packet; the host prevents it */
		pending &= ~g.lanes;
		active = crypt_staged_set(m, tile, ipsec, &staging, t, scratch, &g, &c, &w, &segments, flags);
		frame = (uint8_t *)(staging.words + c.at) + (w.low - c.start);
		w.low |= c.admitted; /* in the result's address */
	}
}

#endif
