/* In-place sealing and opening of ESP packets by a subwarp: the steps around the ciphers and
 * HMAC. The result equals package suite's Transform. Included by esp_lane.h.
 *
 * All lanes of a subwarp pass the same packet and key. The packet is in shared memory, or wherever
 * PACKET_LOAD reaches. The key is read by plain loads: a kernel that outlives it must copy it to
 * shared memory, because caches may hold the previous key of its slot. */
#ifndef WARPROUTE_ESP_ESP_H
#define WARPROUTE_ESP_ESP_H

#include "cbc.h"
#include "chachapoly.h"
#include "ctr.h"
#include "gcm.h"
#include "hmac.h"
#include "subwarp.h"

/* Turns the nonce that the host wrote in place of a CBC packet's IV into the IV, as suite.EncryptIV
 * does. One lane calls it before the packet is sealed. */
DEVICE void esp_encrypt_iv(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p)
{
	uint32_t iv[4];

	if (k->cipher != ESP_CBC)
		return;
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		iv[i] = esp_iv(p, i);
	aes_encrypt(t, esp_iv_schedule(k), 10, iv);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		PACKET_STORE(p->esp + ESP_HEADER_WORDS + i, iv[i]);
}

/* Computes Poly1305's ICV of the ciphertext, for lane 0. */
DEVICE void esp_poly1305(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes,
			 uint32_t icv[8])
{
	uint32_t sum[5], key[4];

	poly1305_lane(k, p, lane, lanes, sum, key);
	subwarp_sync(lanes); /* the last block was read beyond the text, where the ICV will be */
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++)
		sum[i] = subwarp_add(sum[i], lanes);
	poly1305_tag(sum, key, icv);
}

/* Writes the ICV or, to open, compares it with the packet's in constant time. Returns the xor of
 * all differences. */
DEVICE uint32_t esp_check_or_put(const struct esp_key *k, const struct esp_packet *p, int open, const uint32_t icv[8])
{
	const uint32_t words = k->icv_words;
	uint32_t *at = esp_icv(p, k), differs = 0;

	PRAGMA_UNROLL
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

/* Calls esp_check_or_put in lane 0 and returns its result in all lanes. */
DEVICE uint32_t esp_finish(const struct esp_key *k, const struct esp_packet *p, int open, uint32_t lane,
			   uint32_t lanes, const uint32_t icv[8])
{
	return subwarp_xor(lane == 0 ? esp_check_or_put(k, p, open, icv) : 0, lanes);
}

#endif
