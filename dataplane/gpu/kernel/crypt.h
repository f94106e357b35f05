/* ESP encryption, decryption and authentication of the packets in a warp's staging buffer. Included
 * by esp_batch.h.
 *
 * Lanes share a packet where its blocks are independent: all of them, or with GCM a subwarp (gcm_by_subwarps). Where
 * they are chained, lanes have packets of their own:
 *
 *	                crypt_by_warp   4 lanes each    1 lane each   crypt_by_warp
 *	                (after = 0)                                   (after = 1)
 *	ChaCha20        seal and open
 *	CTR with HMAC   seal: encrypt                   HMAC          open: decrypt
 *	CBC with HMAC                   seal: encrypt   HMAC          open: decrypt */
#ifndef WARPROUTE_CRYPT_H
#define WARPROUTE_CRYPT_H

#include "staging.h"

DEVICE const struct esp_key *staged_key(const struct staging *s, uint32_t at) { return (const struct esp_key *)(s->words + at); }

/* Returns how many key segments a packet needs, as ipsec.SA.DeviceKeyUsed does. */
DEVICE uint32_t key_segments(const struct esp_key *k, const struct job *j)
{
	return k->cipher == ESP_GCM ? k->hash + min32(ESP_POWERS, j->bytes / SEGMENT) : k->segments;
}

DEVICE struct esp_packet staged_packet(const struct staging *s, uint32_t esp, uint32_t text, uint32_t flags,
				       uint32_t high)
{
	return (struct esp_packet){s->words + esp, text, (flags & JOB_EXTENDED) != 0, high};
}

/* Runs the steps of one packet, not of GCM, that all lanes share, before (after = 0) or behind (after = 1) the
 * steps of a single lane. Returns nonzero if the ICV does not match. */
DEVICE uint32_t crypt_packet(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p,
			     int open, int after)
{
	uint32_t icv[8] = {0, 0, 0, 0, 0, 0, 0, 0}, differs = 0, lane = lane_id();

	if (k->cipher == ESP_CHACHA20 && !after) {
		PRAGMA_UNROLL_1
		for (int crypt = !open, i = 0; i < 2 && !differs; i++, crypt = !crypt) {
			if (crypt) {
				chacha20_lane(k, p, lane, WARP_SIZE);
				subwarp_sync(WARP_SIZE);
			} else {
				esp_poly1305(k, p, lane, WARP_SIZE, icv);
				differs = esp_finish(k, p, open, lane, WARP_SIZE, icv);
			}
		}
	} else if (k->cipher == ESP_CTR && after == open) {
		ctr_lane(k, t, p, lane, WARP_SIZE);
	} else if (k->cipher == ESP_CBC && after && open) {
		uint32_t chain[4];
		cbc_begin_lane(k, p, lane, WARP_SIZE, chain);
		subwarp_sync(WARP_SIZE);
		cbc_decrypt_lane(k, t, p, lane, WARP_SIZE, chain);
	}
	subwarp_sync(WARP_SIZE);
	return differs;
}

DEVICE void crypt_by_warp(const struct staging *s, const struct aes_tables *t, struct esp_lane *c,
			  uint32_t lanes, int after)
{
	PRAGMA_UNROLL_1
	for (; lanes; lanes &= lanes - 1) {
		uint32_t lane = lowest_bit(lanes);
		if (__shfl_sync(FULL_MASK, c->failed, lane))
			continue;
		uint32_t flags = __shfl_sync(FULL_MASK, c->job.flags, lane);
		struct esp_packet p = staged_packet(s, __shfl_sync(FULL_MASK, c->esp, lane), __shfl_sync(FULL_MASK, c->text, lane), flags, __shfl_sync(FULL_MASK, c->job.seq_high, lane));
		uint32_t differs = crypt_packet(staged_key(s, __shfl_sync(FULL_MASK, c->key, lane)), t, &p, (flags & JOB_KIND) == JOB_OPEN, after);
		if (lane_id() == lane)
			c->failed = differs;
	}
}

/* Seals or opens the packets of a bin, one subwarp per packet. */
DEVICE void gcm_by_subwarps(const struct staging *s, const struct aes_tables *t, struct esp_lane *c,
			    uint32_t lanes, uint32_t size)
{
	uint32_t lane = lane_id() % size;

	PRAGMA_UNROLL_1
	while (lanes) {
		uint32_t owner = nth_lane(lanes, lane_id() / size), from = owner % WARP_SIZE;
		uint32_t flags = __shfl_sync(FULL_MASK, c->job.flags, from);
		uint32_t key = __shfl_sync(FULL_MASK, c->key, from);
		uint32_t failed = __shfl_sync(FULL_MASK, c->failed, from);
		uint32_t esp = __shfl_sync(FULL_MASK, c->esp, from);
		uint32_t text = __shfl_sync(FULL_MASK, c->text, from);
		uint32_t high = __shfl_sync(FULL_MASK, c->job.seq_high, from);
		int busy = owner < WARP_SIZE && !failed, open = (flags & JOB_KIND) == JOB_OPEN;
		const struct esp_key *k = staged_key(s, key);
		const struct esp_packet p = staged_packet(s, esp, text, flags, high);
		uint32_t sum[4] = {0, 0, 0, 0}, mask[4] = {0, 0, 0, 0}, icv[8] = {0, 0, 0, 0, 0, 0, 0, 0}, differs = 0;

		if (busy)
			gcm_lane(k, t, &p, open, lane, size, sum, mask);
		__syncwarp();
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			sum[i] = subwarp_xor(sum[i], size);
		if (busy && lane == 0) {
			gcm_tag(k, &p, sum, mask, icv);
			differs = esp_check_or_put(k, &p, open, icv);
		}
		/* The packets of this round, and the subwarp number of this lane's own packet: that
		 * subwarp has its result. */
		uint32_t rest = without_first(lanes, WARP_SIZE / size), round = lanes & ~rest, number = (uint32_t)__popc(round & lanes_before(lane_id()));
		differs = __shfl_sync(FULL_MASK, differs, number * size % WARP_SIZE);
		if (round >> lane_id() & 1 && differs)
			c->failed = differs;
		lanes = rest;
		__syncwarp();
	}
}

/* Encrypts the batch's CBC packets that are to be sealed, four lanes per packet. */
DEVICE void cbc_encrypt_batch(const struct staging *s, const struct aes_tables *t, const struct esp_lane *c, int mine)
{
	uint32_t lanes = __ballot_sync(FULL_MASK, mine && !c->failed && job_kind(&c->job) == JOB_SEAL && staged_key(s, c->key)->cipher == ESP_CBC);

	PRAGMA_UNROLL_1
	while (lanes) {
		uint32_t owner = nth_lane(lanes, lane_id() / AES_COLUMNS), from = owner % WARP_SIZE;
		uint32_t key = __shfl_sync(FULL_MASK, c->key, from);
		uint32_t esp = __shfl_sync(FULL_MASK, c->esp, from);
		uint32_t text = __shfl_sync(FULL_MASK, c->text, from);
		const struct esp_packet p = staged_packet(s, esp, text, 0, 0);

		cbc_encrypt_columns(staged_key(s, key), t, &p, owner < WARP_SIZE, lane_id(), WARP_SIZE);
		lanes = without_first(lanes, WARP_SIZE / AES_COLUMNS);
	}
	__syncwarp();
}

/* Computes the HMAC of a lane's own packet, and writes or checks its ICV. */
DEVICE void authenticate_by_lane(const struct staging *s, struct esp_lane *c)
{
	const struct esp_key *k = staged_key(s, c->key);
	const struct esp_packet p = staged_packet(s, c->esp, c->text, c->job.flags, c->job.seq_high);
	int open = job_kind(&c->job) == JOB_OPEN;
	uint32_t icv[8];

	if (k->auth == ESP_COMBINED)
		return;
	hmac(k, &p, icv);
	c->failed = esp_finish(k, &p, open, 0, 1, icv);
}

#endif
