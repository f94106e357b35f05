/* AES-CBC in ESP (RFC 3602). Texts are whole blocks. Included by esp.h. */
#ifndef WARPROUTE_ESP_CBC_H
#define WARPROUTE_ESP_CBC_H

#include "aes.h"
#include "column.h"
#include "packet.h"

/* Loads the ciphertext block that precedes a block in memory: the IV for the first one. */
DEVICE void cbc_load_chain(const struct esp_packet *p, const struct esp_key *k, uint32_t block, uint32_t chain[4])
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		chain[i] = PACKET_LOAD(esp_text(p, k) + 4 * block + i - 4);
}

/* Encrypts the packets of a subwarp side by side, four lanes each; lanes that are not busy only take
 * part in the exchange. Each block depends on the previous one. */
DEVICE void cbc_encrypt_columns(const struct esp_key *k, const struct aes_tables *t,
				const struct esp_packet *p, int busy, uint32_t lane, uint32_t lanes)
{
	const struct aes_column key = aes_column_of(esp_schedule(k), busy ? k->rounds : 0, lane, lanes);
	uint32_t *text = esp_text(p, k) + lane % AES_COLUMNS;
	const uint32_t blocks = busy ? esp_blocks(p) : 0, most = subwarp_max(blocks, lanes);
	uint32_t chain = 0, next = 0;

	if (blocks) {
		chain = PACKET_LOAD(text - AES_COLUMNS);
		next = PACKET_LOAD(text);
	}
	PRAGMA_UNROLL_1
	for (uint32_t block = 0; block < most; block++) {
		uint32_t s = chain ^ next;
		if (block + 1 < blocks) /* prefetch: plaintext does not depend on the chain */
			next = PACKET_LOAD(text + AES_COLUMNS * (block + 1));
		chain = aes_encrypt_column(t, &key, s, lanes);
		if (block < blocks)
			PACKET_STORE(text + AES_COLUMNS * block, chain);
	}
}

/* Returns the consecutive blocks that a lane decrypts. */
DEVICE uint32_t cbc_share(const struct esp_packet *p, uint32_t lanes) { return (esp_blocks(p) + lanes - 1) / lanes; }

/* Loads the block before a lane's first one. All lanes must do so before one overwrites its blocks
 * (cbc_decrypt_lane). */
DEVICE void cbc_begin_lane(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes,
			   uint32_t chain[4])
{
	cbc_load_chain(p, k, min32(cbc_share(p, lanes) * lane, esp_blocks(p)), chain);
}

/* Decrypts a lane's blocks. */
DEVICE void cbc_decrypt_lane(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p,
			     uint32_t lane, uint32_t lanes, uint32_t chain[4])
{
	uint32_t *text = esp_text(p, k);
	const uint32_t rounds = k->rounds, share = cbc_share(p, lanes), end = min32(share * (lane + 1), esp_blocks(p));

	PRAGMA_UNROLL_1
	for (uint32_t block = share * lane; block < end; block++) {
		uint32_t b[4], in[4];
		esp_load_block(text, block, in);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			b[i] = in[i];
		aes_decrypt(t, esp_schedule(k), rounds, b);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++) {
			b[i] ^= chain[i];
			chain[i] = in[i];
		}
		esp_store(p, text, 4 * block, b, 4);
	}
}

#endif
