/* AES-GCM in ESP (RFC 4106), by a team of lanes on a packet.
 *
 *	block     0           1        2       ...   n-1       n
 *	          SPI, seq    text     text          text      lengths
 *	counter   1           2        3             n
 *	times     H^(n+1)     H^n      H^(n-1)       H^2       H
 *
 * Lane i takes blocks i, i+L, i+2L and so on of the first n, of L lanes. The encryption
 * of counter 1 is not for the text: the tag is combined with it. */
#ifndef WARPROUTE_ESP_GCM_H
#define WARPROUTE_ESP_GCM_H

#include "aes.h"
#include "ghash.h"
#include "packet.h"

/* Encrypts a lane's blocks, or, to open, decrypts them. The xor of all lanes' sums is
 * what gcm_tag wants of the ciphertext; mask is what it wants of lane 0.
 *
 * As the lanes' next blocks are L blocks on, a sum is multiplied by H^L for each, and
 * behind the last one by as much as there is to the end. */
DEVICE void gcm_lane(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open,
		     uint32_t lane, uint32_t lanes, uint32_t sum[4], uint32_t mask[4])
{
	uint32_t *text = esp_text(p, k);
	const uint32_t iv[2] = {esp_iv(p, 0), esp_iv(p, 1)};
	const uint32_t salt = k->salt, rounds = k->rounds, n = 1 + esp_blocks(p);

	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		sum[i] = mask[i] = 0;
	ROLL
	for (uint32_t block = lane; block < n; block += lanes) {
		uint32_t stream[4] = {salt, iv[0], iv[1], network(block + 1)}, in[4];
		aes_encrypt(t, esp_schedule(k), rounds, stream);
		if (block == 0) {
			esp_associated(p, in);
			ghash_add(sum, in);
			UNROLL
			for (uint32_t i = 0; i < 4; i++)
				mask[i] = stream[i];
		} else {
			esp_load_block(text, block - 1, in);
			UNROLL
			for (uint32_t i = 0; i < 4; i++) {
				stream[i] ^= in[i];
				in[i] = open ? in[i] : stream[i];
			}
			esp_store(p, text, 4 * (block - 1), stream, 4);
			esp_trim_block(p, block - 1, in);
			ghash_add(sum, in);
		}
		ghash_multiply(sum, esp_powers(k) + at_most(lanes, n - block) - 1);
	}
}

/* The tag, of all lanes' sums and lane 0's mask. */
DEVICE void gcm_tag(const struct esp_key *k, const struct esp_packet *p, const uint32_t sum[4], const uint32_t mask[4], uint32_t tag[4])
{
	/* The lengths of both, in bits. */
	uint32_t y[4] = {sum[0] ^ p->words * 32, sum[1], sum[2] ^ (p->extended ? 96 : 64), sum[3]};

	ghash_multiply(y, esp_powers(k));
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		tag[i] = mask[i] ^ network(y[3 - i]);
}

#endif
