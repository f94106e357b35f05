/* ChaCha20-Poly1305 in ESP (RFC 7634) by a subwarp per packet. Counter 0 gives Poly1305's
 * key, counters from 1 on encrypt the text. Included by esp.h. */
#ifndef WARPROUTE_ESP_CHACHAPOLY_H
#define WARPROUTE_ESP_CHACHAPOLY_H

#include "chacha20.h"
#include "packet.h"
#include "poly1305.h"

DEVICE void chachapoly_stream(const struct esp_key *k, const struct esp_packet *p, uint32_t counter, uint32_t s[16])
{
	const uint32_t nonce[3] = {k->salt, esp_iv(p, 0), esp_iv(p, 1)};

	chacha20_block(esp_schedule(k)[0].w, esp_schedule(k)[1].w, counter, nonce, s);
}

/* Encrypts or decrypts a lane's 64-byte parts: each lanes-th one from its own on. */
DEVICE void chacha20_lane(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes)
{
	uint32_t *text = esp_text(p, k);
	uint32_t s[16];

	PRAGMA_UNROLL_1
	for (uint32_t part = lane; 16 * part < p->words; part += lanes) {
		chachapoly_stream(k, p, part + 1, s);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 16; i++)
			s[i] ^= PACKET_LOAD(text + min32(16 * part + i, p->words - 1));
		esp_store(p, text, 16 * part, s, 16);
	}
}

/* Loads a block of the authenticated data: SPI and sequence number, ciphertext, lengths of both. */
DEVICE void poly1305_load(const struct esp_key *k, const struct esp_packet *p, uint32_t block, uint32_t b[4])
{
	if (block == 0) {
		esp_associated(p, b);
	} else if (block <= esp_blocks(p)) {
		esp_load_block(esp_text(p, k), block - 1, b);
		esp_trim_block(p, block - 1, b);
	} else {
		b[0] = p->extended ? 12 : 8;
		b[2] = 4 * p->words;
		b[1] = b[3] = 0;
	}
}

/* Authenticates a lane's blocks: each lanes-th one from its own on. poly1305_tag takes the
 * limb-wise sum over all lanes and the second half of the key. As in gcm_lane, but the powers of
 * the key are computed here. */
DEVICE void poly1305_lane(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes,
			  uint32_t sum[5], uint32_t key[4])
{
	const uint32_t n = 2 + esp_blocks(p);
	uint32_t s[16], r[5], last[5];

	chachapoly_stream(k, p, 0, s);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		key[i] = s[i + 4];
	poly1305_key(s, r);
	poly1305_powers(r, last, lane < n ? (n - lane - 1) % lanes + 1 : 0, lanes);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++)
		sum[i] = 0;
	PRAGMA_UNROLL_1
	for (uint32_t block = lane; block < n; block += lanes) {
		uint32_t b[4], factor[5];
		poly1305_load(k, p, block, b);
		poly1305_add(sum, b, 1);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 5; i++)
			factor[i] = block + lanes < n ? r[i] : last[i];
		poly1305_multiply(sum, factor);
	}
}

#endif
