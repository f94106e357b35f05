/* AES-GCM in ESP (RFC 4106) by a subwarp per packet. Included by esp.h.
 *
 *	block     0           1        2       ...   n-1       n
 *	          SPI, seq    text     text          text      lengths
 *	counter   1           2        3             n
 *	factor    H^(n+1)     H^n      H^(n-1)       H^2       H
 *
 * Of L lanes, lane i processes blocks i, i+L, i+2L, ... below n, two in a step. The key stream of counter 1
 * encrypts the tag. */
#ifndef WARPROUTE_ESP_GCM_H
#define WARPROUTE_ESP_GCM_H

#include "aes.h"
#include "ghash.h"
#include "packet.h"

/* Encrypts or decrypts a block with its key stream, and adds the ciphertext to sum. Block 0 is the associated data, and its key stream the mask. */
DEVICE void gcm_block(const struct esp_packet *p, uint32_t *text, int open, uint32_t block, uint32_t stream[4], uint32_t sum[4], uint32_t mask[4])
{
	uint32_t in[4];

	if (block == 0) {
		esp_associated(p, in);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			mask[i] = stream[i];
	} else {
		esp_load_block(text, block - 1, in);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++) {
			stream[i] ^= in[i];
			in[i] = open ? in[i] : stream[i];
		}
		esp_store(p, text, 4 * (block - 1), stream, 4);
		esp_trim_block(p, block - 1, in);
	}
	ghash_add(sum, in);
}

#define GCM_LANES (ESP_POWERS / 2) /* the most that share a packet: a step takes powers of up to twice their number */

/* Encrypts or decrypts a lane's blocks, of up to GCM_LANES lanes. gcm_tag takes the xor of all lanes' sums and lane 0's mask.
 *
 * A lane's next step is 2L blocks on, so its sum and the first block are multiplied by H^2L, the second one by H^L, and in the
 * last step each by the power that remains. A step reduces the sum of both products once. */
DEVICE void gcm_lane(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open,
		     uint32_t lane, uint32_t lanes, uint32_t sum[4], uint32_t mask[4])
{
	uint32_t *text = esp_text(p, k);
	const uint32_t iv[2] = {esp_iv(p, 0), esp_iv(p, 1)};
	const uint32_t salt = k->salt, rounds = k->rounds, n = 1 + esp_blocks(p);
	const struct esp_segment *powers = esp_powers(k);

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		sum[i] = mask[i] = 0;
	PRAGMA_UNROLL_1
	for (uint32_t block = lane; block < n; block += 2 * lanes) {
		uint32_t stream[4] = {salt, iv[0], iv[1], be32(block + 1)}, next[4] = {salt, iv[0], iv[1], be32(block + lanes + 1)}, z[8] = {0, 0, 0, 0, 0, 0, 0, 0};
		const struct esp_segment *power = powers + min32(2 * lanes, n - block) - 1;
		aes_encrypt_two(t, esp_schedule(k), rounds, stream, next);
		PRAGMA_UNROLL_1
		for (uint32_t at = block;;) {
			gcm_block(p, text, open, at, stream, sum, mask);
			ghash_add_product(z, sum, power);
			if (at != block || n - at <= lanes)
				break;
			at += lanes;
			power -= lanes;
			PRAGMA_UNROLL
			for (uint32_t i = 0; i < 4; i++) {
				stream[i] = next[i];
				sum[i] = 0;
			}
		}
		ghash_reduce(z, sum);
	}
}

/* Computes the tag from the xor of all lanes' sums and lane 0's mask. */
DEVICE void gcm_tag(const struct esp_key *k, const struct esp_packet *p, const uint32_t sum[4],
		    const uint32_t mask[4], uint32_t tag[4])
{
	/* The lengths of both parts in bits. */
	uint32_t y[4] = {sum[0] ^ p->words * 32, sum[1], sum[2] ^ (p->extended ? 96 : 64), sum[3]};

	ghash_multiply(y, esp_powers(k));
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		tag[i] = mask[i] ^ be32(y[3 - i]);
}

#endif
