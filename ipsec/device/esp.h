/* What sealing and opening an ESP packet in place is made of, beside the ciphers and HMAC,
 * for a team of lanes: together they make the same bytes as package suite's Transform.
 *
 * All lanes of a team are given the same packet and key, and see what is in both. The
 * packet lies in shared memory, or wherever PACKET_LOAD reaches. The key is read by plain
 * loads: where a kernel outlives it, it has to be a copy in shared memory, for caches
 * may still have what was in its place before. */
#ifndef WARPROUTE_ESP_ESP_H
#define WARPROUTE_ESP_ESP_H

#include "cbc.h"
#include "chachapoly.h"
#include "ctr.h"
#include "gcm.h"
#include "hmac.h"
#include "team.h"

/* Makes a CBC packet's IV of the nonce that the host wrote in its place, as
 * suite.EncryptIV does. One lane does it, before the packet is sealed. */
DEVICE void esp_encrypt_iv(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p)
{
	uint32_t iv[4];

	if (k->cipher != ESP_CBC)
		return;
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		iv[i] = esp_iv(p, i);
	aes_encrypt(t, esp_iv_schedule(k), 10, iv);
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		PACKET_STORE(p->esp + ESP_HEADER_WORDS + i, iv[i]);
}

/* Poly1305's ICV of the ciphertext, for lane 0. */
DEVICE void esp_poly1305(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes, uint32_t icv[8])
{
	uint32_t sum[5], key[4];

	poly1305_lane(k, p, lane, lanes, sum, key);
	team_join(lanes); /* the last block was read beyond the text, where the ICV will be */
	UNROLL
	for (uint32_t i = 0; i < 5; i++)
		sum[i] = team_add(sum[i], lanes);
	poly1305_tag(sum, key, icv);
}

/* Encrypts or decrypts by GCM, and finds the ICV that the ciphertext should have, for lane 0. */
DEVICE void esp_combined(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open,
			 uint32_t lane, uint32_t lanes, uint32_t icv[8])
{
	uint32_t sum[4], mask[4];

	gcm_lane(k, t, p, open, lane, lanes, sum, mask);
	team_join(lanes); /* as above */
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		sum[i] = team_xor(sum[i], lanes);
	gcm_tag(k, p, sum, mask, icv);
}

/* Writes the ICV, or, to open, compares it with the packet's: what differs is 0 if
 * nothing does, and takes the same time whatever does. */
DEVICE uint32_t esp_check_or_put(const struct esp_key *k, const struct esp_packet *p, int open, const uint32_t icv[8])
{
	const uint32_t words = k->icv_words;
	uint32_t *at = esp_icv(p, k), differs = 0;

	UNROLL
	for (uint32_t i = 0; i < 8; i++) {
		if (i >= words)
			continue;
		if (open)
			differs |= PACKET_LOAD(at + i) ^ icv[i];
		else
			PACKET_STORE(at + i, icv[i]);
	}
	return differs;
}

/* Has lane 0 do that; all lanes know the outcome. */
DEVICE uint32_t esp_finish(const struct esp_key *k, const struct esp_packet *p, int open, uint32_t lane, uint32_t lanes, const uint32_t icv[8])
{
	return team_xor(lane == 0 ? esp_check_or_put(k, p, open, icv) : 0, lanes);
}

#endif
