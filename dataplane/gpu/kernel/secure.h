/* Sealing and opening the packets of a quad on the way to their lookup, by a warp. */
#ifndef WARPROUTE_SECURE_H
#define WARPROUTE_SECURE_H

#include "crypt.h"
#include "inner.h"

/* Ends with a lane's packet: on the desk is the head of the one that goes on, w says
 * where that will be, and lines which are to be written back. DROP_NONE unless there is
 * a reason to drop it. */
DEVICE uint32_t end(const struct stage *s, struct desk *desk, const struct cargo *c, struct word *w, struct lines *lines)
{
	uint32_t *words = s->words + c->at;
	uint32_t ip = w->low + ETHERNET_LEN - c->start, esp = w->low + c->job.esp - c->start, end = c->lines * LINE;

	if (kind_of(c) == JOB_SEAL) {
		if (c->differs)
			return DROP_XFRM_OUT_STATE_PROTO_ERROR;
		if (c->job.flags & JOB_SUM)
			sum_udp(words, ip, esp - 8, 8u + c->job.bytes);
	} else {
		const struct esp_key *k = key_of(s, c->key);
		struct inner in = {0, 0, 0};
		if (c->differs)
			return DROP_XFRM_IN_STATE_PROTO_ERROR;
		uint32_t text = esp + 4 * (ESP_HEADER_WORDS + k->iv_words);
		uint32_t reason = find_inner(words, &c->job, ip, text, 4 * c->text, &in);
		if (reason != DROP_NONE)
			return reason;
		ip = in.ip;
		words[ip / 4 - 1] = (words[ip / 4 - 1] & 0xffff) | swap16(in.type) << 16;
		w->low = c->start + ip - ETHERNET_LEN;
		w->high = (w->high & 0xffff0000) | (ETHERNET_LEN + in.size);
		end = ip + in.size;
	}
	*lines = (struct lines){(ip - HEAD_IP) / SECTOR * SECTOR_LINES, (end + SECTOR - 1) / SECTOR * SECTOR_LINES};
	UNROLL
	for (uint32_t i = 0; i < HEAD_LEN / 4; i++)
		desk->heads[lane_index()][i] = words[(ip - HEAD_IP) / 4 + i];
	return DROP_NONE;
}

/* Seals and opens the packets of a group; w is then of what they became. Returns whether
 * the lane's is to be looked up, and written back afterwards: those lines. The others'
 * results are stored. */
DEVICE int secure(const struct mailbox *m, const struct vault *v, const struct stage *s, const struct aes_tables *t, struct desk *desk,
		  uint8_t *slot, uint32_t quad, const struct group *g, struct cargo *c, struct word *w, struct lines *lines)
{
	int mine = g->lanes >> lane_index() & 1;
	uint32_t reason = DROP_NONE;

	load_group(m, v->keys, s, c, g->lines);
	if (mine)
		begin(s, t, c, w->low);
	join_warp();
	int gcm = all_of_warp(!mine || key_of(s, c->key)->cipher == ESP_GCM);
	ROLL
	for (uint32_t left = gcm ? g->lanes : 0; left;) {
		struct bin b = bin_of(c, left);
		by_teams(s, t, c, b.lanes, team_of(&b));
		left &= ~b.lanes;
	}
	ROLL
	for (int after = gcm ? 2 : 0; after < 2; after++) {
		together(s, t, c, g->lanes, after);
		join_warp();
		if (!after)
			by_columns(s, t, c, mine);
		if (mine && !after && !c->differs)
			alone(s, c);
		join_warp();
	}
	if (mine)
		reason = end(s, desk, c, w, lines);
	if (mine && reason != DROP_NONE) {
		struct result r = {0, (uint16_t)(c->differs ? JOB_FORGED : 0), (uint16_t)verdict(ACTION_DROP, reason)};
		store_result(m, slot, quad, r);
	}
	join_warp();
	return mine && reason == DROP_NONE;
}

DEVICE struct job load_job(const struct vault *v, uint32_t slot, uint32_t quad, uint32_t n)
{
	struct job j = {0, 0, 0, 0, 0, JOB_SETTLED};

	if (is_packet(quad, n)) {
		struct words4 w = host_load128(&v->jobs[slot * v->slot_jobs + packet_of(quad)]);
		j = (struct job){w.w[0], w.w[1], (uint16_t)w.w[2], (uint16_t)(w.w[2] >> 16), (uint16_t)w.w[3], (uint16_t)(w.w[3] >> 16)};
	}
	return j;
}

/* Works off a quad of which packets have jobs: first the packets without, where they are;
 * then those with, as many at a time as the stage holds. They are written back when they
 * have been looked up, once and whole. */
DEVICE void work_with_jobs(const struct mailbox *m, const struct vault *v, const struct stage *stage, const struct aes_tables *t,
			   struct desk *desk, uint8_t *slot, uint32_t number, uint32_t quad, struct word w, uint32_t n)
{
	struct cargo c = cargo_of(load_job(v, number, quad, n), w);
	uint32_t waiting = lanes_where(kind_of(&c) >= JOB_SEAL);
	int due = kind_of(&c) == JOB_PLAIN;
	struct snapshot s = fetch(m, desk, w, due);
	struct group g = {0, 0, stage->size};
	struct lines lines = {0, 0};
	uint8_t *body = m->umem + w.low;

	ROLL
	for (;;) {
		work(m, desk, s, slot, quad, w, body, due, g.lanes ? ON_STAGE : IN_WORDS);
		store_packets(m, stage, &c, g.lanes & lanes_where(due), lines);
		forget_keys(stage, &g);
		if (!waiting)
			return;
		g = place(stage, waiting, &c);
		if (!g.lanes)
			return; /* the stage is too small, which the router sees to */
		waiting &= ~g.lanes;
		due = secure(m, v, stage, t, desk, slot, quad, &g, &c, &w, &lines);
		body = (uint8_t *)(stage->words + c.at) + (w.low - c.start);
	}
}

#endif
