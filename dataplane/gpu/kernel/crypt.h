/* Sealing and opening what is on a warp's stage.
 *
 * Where lanes can share a packet, all of them work on one after the other; where one
 * block waits for the one before, each has a packet of its own:
 *
 *	                    together           four each        each its own     together
 *	GCM, ChaCha20       all (GCM of short packets: several at once, a team of lanes each)
 *	CTR with HMAC       seal: encrypt                       HMAC             open: decrypt
 *	CBC with HMAC                          seal: encrypt    HMAC             open: decrypt */
#ifndef WARPROUTE_CRYPT_H
#define WARPROUTE_CRYPT_H

#include "stage.h"

DEVICE const struct esp_key *key_of(const struct stage *s, uint32_t at) { return (const struct esp_key *)(s->words + at); }

/* How many lines of its key a packet needs: as ipsec.SA's DeviceKeyUsed says. */
DEVICE uint32_t lines_of(const struct esp_key *k, const struct job *j)
{
	return k->cipher == ESP_GCM ? k->hash + at_most(ESP_POWERS, j->bytes / LINE) : k->lines;
}

/* Begins with a lane's packet when it is on the stage. Where the association has ended, which
 * may be while a device is given up as late, the record has another key, or none: no more
 * of it is on the stage than the job says. */
DEVICE void begin(const struct stage *s, const struct aes_tables *t, struct cargo *c, uint32_t addr)
{
	const struct esp_key *k = key_of(s, c->key);
	struct esp_packet p;

	c->esp = c->at + (addr + c->job.esp - c->start) / 4;
	c->differs = lines_of(k, &c->job) != c->job.key >> JOB_LINES || !esp_packet_at(&p, k, s->words + c->esp, c->job.bytes, 0, c->job.high);
	if (c->differs)
		return;
	c->text = p.words;
	if (kind_of(c) == JOB_SEAL)
		esp_encrypt_iv(k, t, &p);
}

DEVICE struct esp_packet view(const struct stage *s, uint32_t esp, uint32_t text, uint32_t flags, uint32_t high)
{
	return (struct esp_packet){s->words + esp, text, (flags & JOB_EXTENDED) != 0, high};
}

/* What all lanes do with a packet, before each has done with its own what it does, or
 * after. Not 0: it is not authentic. */
DEVICE uint32_t together_on(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open, int after)
{
	uint32_t icv[8] = {0, 0, 0, 0, 0, 0, 0, 0}, differs = 0, lane = lane_index();

	if (k->cipher == ESP_GCM && !after) {
		esp_combined(k, t, p, open, lane, WARP, icv);
		differs = esp_finish(k, p, open, lane, WARP, icv);
	} else if (k->cipher == ESP_CHACHA20 && !after) {
		ROLL
		for (int crypt = !open, i = 0; i < 2 && !differs; i++, crypt = !crypt) {
			if (crypt) {
				chacha20_lane(k, p, lane, WARP);
				team_join(WARP);
			} else {
				esp_poly1305(k, p, lane, WARP, icv);
				differs = esp_finish(k, p, open, lane, WARP, icv);
			}
		}
	} else if (k->cipher == ESP_CTR && after == open) {
		ctr_lane(k, t, p, lane, WARP);
	} else if (k->cipher == ESP_CBC && after && open) {
		uint32_t chain[4];
		cbc_begin_lane(k, p, lane, WARP, chain);
		team_join(WARP);
		cbc_decrypt_lane(k, t, p, lane, WARP, chain);
	}
	team_join(WARP);
	return differs;
}

DEVICE void together(const struct stage *s, const struct aes_tables *t, struct cargo *c, uint32_t lanes, int after)
{
	ROLL
	for (uint32_t lane = 0; lane < WARP; lane++) {
		if (!(lanes >> lane & 1) || shuffle(c->differs, lane))
			continue;
		uint32_t flags = shuffle(c->job.flags, lane);
		struct esp_packet p = view(s, shuffle(c->esp, lane), shuffle(c->text, lane), flags, shuffle(c->job.high, lane));
		uint32_t differs = together_on(key_of(s, shuffle(c->key, lane)), t, &p, (flags & JOB_KIND) == JOB_OPEN, after);
		if (lane_index() == lane)
			c->differs = differs;
	}
}

/* Some packets of a group, all of GCM, that are done side by side: those at least half as
 * long as the longest, for nobody should wait for it with a fraction of its work. */
struct bin {
	uint32_t lanes, packets, longest; /* in lines */
};

DEVICE struct bin bin_of(const struct cargo *c, uint32_t left)
{
	uint32_t lines = left >> lane_index() & 1 ? c->lines : 0, longest = team_most(lines, WARP);
	uint32_t lanes = lanes_where(2 * lines > longest);
	return (struct bin){lanes, count_bits(lanes), longest};
}

/* How many lanes there are to each packet of a bin: as many as have some lines each, unless
 * that would leave lanes without a packet. */
DEVICE uint32_t team_of(const struct bin *b)
{
	uint32_t lanes = WARP;

	ROLL
	while (lanes > 1 && b->longest < 4 * lanes && WARP / lanes < b->packets)
		lanes /= 2;
	return lanes;
}

/* The lane of the packet that is the nth of those left; WARP if there are fewer. */
DEVICE uint32_t nth_of(uint32_t left, uint32_t n)
{
	uint32_t lane = 0;

	ROLL
	for (; lane < WARP; lane++)
		if (left >> lane & 1 && n-- == 0)
			break;
	return lane;
}

/* Does with the packets of a bin what there is to do, each by a team. */
DEVICE void by_teams(const struct stage *s, const struct aes_tables *t, struct cargo *c, uint32_t lanes, uint32_t team)
{
	uint32_t lane = lane_index() % team;

	ROLL
	while (lanes) {
		uint32_t owner = nth_of(lanes, lane_index() / team), from = owner % WARP;
		uint32_t flags = shuffle(c->job.flags, from), key = shuffle(c->key, from), failed = shuffle(c->differs, from);
		uint32_t esp = shuffle(c->esp, from), text = shuffle(c->text, from), high = shuffle(c->job.high, from);
		int busy = owner < WARP && !failed, open = (flags & JOB_KIND) == JOB_OPEN;
		const struct esp_key *k = key_of(s, key);
		const struct esp_packet p = view(s, esp, text, flags, high);
		uint32_t sum[4] = {0, 0, 0, 0}, mask[4] = {0, 0, 0, 0}, icv[8] = {0, 0, 0, 0, 0, 0, 0, 0}, differs = 0;

		if (busy)
			gcm_lane(k, t, &p, open, lane, team, sum, mask);
		join_warp();
		UNROLL
		for (uint32_t i = 0; i < 4; i++)
			sum[i] = team_xor(sum[i], team);
		if (busy && lane == 0) {
			gcm_tag(k, &p, sum, mask, icv);
			differs = esp_check_or_put(k, &p, open, icv);
		}
		/* The packets of this turn, and which of them a lane's own is: the team of that
		 * number has the outcome. */
		uint32_t next = nth_of(lanes, WARP / team), number = 0;
		uint32_t turn = next < WARP ? lanes & ((1u << next) - 1) : lanes;
		ROLL
		for (uint32_t i = 0; i < lane_index(); i++)
			number += turn >> i & 1;
		differs = shuffle(differs, number * team % WARP);
		if (turn >> lane_index() & 1 && differs)
			c->differs = differs;
		lanes &= ~turn;
		join_warp();
	}
}

/* Encrypts those of a group's packets that are to be by CBC, each by four lanes. */
DEVICE void by_columns(const struct stage *s, const struct aes_tables *t, const struct cargo *c, int mine)
{
	uint32_t lanes = lanes_where(mine && !c->differs && kind_of(c) == JOB_SEAL && key_of(s, c->key)->cipher == ESP_CBC);

	ROLL
	while (lanes) {
		uint32_t owner = nth_of(lanes, lane_index() / AES_COLUMNS), next = nth_of(lanes, WARP / AES_COLUMNS), from = owner % WARP;
		uint32_t key = shuffle(c->key, from), esp = shuffle(c->esp, from), text = shuffle(c->text, from);
		const struct esp_packet p = view(s, esp, text, 0, 0);

		cbc_encrypt_columns(key_of(s, key), t, &p, owner < WARP, lane_index(), WARP);
		lanes = next < WARP ? lanes >> next << next : 0;
	}
	join_warp();
}

/* What a lane does with its own packet. */
DEVICE void alone(const struct stage *s, struct cargo *c)
{
	const struct esp_key *k = key_of(s, c->key);
	const struct esp_packet p = view(s, c->esp, c->text, c->job.flags, c->job.high);
	int open = kind_of(c) == JOB_OPEN;
	uint32_t icv[8];

	if (k->auth == ESP_COMBINED)
		return;
	hmac(k, &p, icv);
	c->differs = esp_finish(k, &p, open, 0, 1, icv);
}

#endif
