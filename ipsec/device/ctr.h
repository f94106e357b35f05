/* AES-CTR in ESP (RFC 3686): block i is combined with the encryption of counter i + 1. Included by
 * esp.h. */
#ifndef WARPROUTE_ESP_CTR_H
#define WARPROUTE_ESP_CTR_H

#include "aes.h"
#include "packet.h"

/* Encrypts or decrypts a lane's blocks: each lanes-th one from its own on. */
DEVICE void ctr_lane(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p,
		     uint32_t lane, uint32_t lanes)
{
	uint32_t *text = esp_text(p, k);
	const uint32_t iv[2] = {esp_iv(p, 0), esp_iv(p, 1)}, salt = k->salt, rounds = k->rounds;

	PRAGMA_UNROLL_1
	for (uint32_t block = lane; block < esp_blocks(p); block += lanes) {
		uint32_t stream[4] = {salt, iv[0], iv[1], be32(block + 1)}, b[4];
		aes_encrypt(t, esp_schedule(k), rounds, stream);
		esp_load_block(text, block, b);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			b[i] ^= stream[i];
		esp_store(p, text, 4 * block, b, 4);
	}
}

#endif
