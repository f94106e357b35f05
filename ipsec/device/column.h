/* AES with four lanes per block, one state column (a word) each, for chained blocks that would
 * leave lanes idle. Included by cbc.h.
 *
 * ShiftRows takes one byte of each column: a lane gets the other three columns before a round, and
 * looks up a byte of each in its own bank, as in aes.h. */
#ifndef WARPROUTE_ESP_COLUMN_H
#define WARPROUTE_ESP_COLUMN_H

#include "aes.h"
#include "subwarp.h"

#define AES_COLUMNS 4
#define AES_FEWEST_ROUNDS 10
#define AES_MOST_ROUNDS 14

/* One column of the round keys. */
struct aes_column {
	uint32_t key[AES_MOST_ROUNDS], last;
	uint32_t rounds, most; /* of this block, and the largest of the subwarp */
};

/* Loads a lane's column. Lanes without a key pass 0 rounds. */
DEVICE struct aes_column aes_column_of(const struct esp_segment *key, uint32_t rounds, uint32_t lane, uint32_t lanes)
{
	struct aes_column c;

	c.rounds = rounds;
	c.most = subwarp_max(rounds, lanes);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < AES_MOST_ROUNDS; i++)
		c.key[i] = i < rounds ? key[i].w[lane % AES_COLUMNS] : 0;
	c.last = rounds ? key[rounds].w[lane % AES_COLUMNS] : 0;
	return c;
}

/* Looks up the table words that form the next column: a byte of each column from its own on. */
DEVICE void aes_lookup_columns(const struct aes_tables *t, uint32_t s, uint32_t lanes, uint32_t look[AES_COLUMNS])
{
	look[0] = s;
	PRAGMA_UNROLL
	for (uint32_t i = 1; i < AES_COLUMNS; i++) /* all exchanges in flight at once */
		look[i] = subwarp_rotate(s, i, AES_COLUMNS, lanes);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < AES_COLUMNS; i++)
		look[i] = aes_lookup(t->encrypt, look[i], i);
}

/* Encrypts a block with four lanes: s and the result are one column. All lanes of the subwarp call it
 * and run as many rounds as the longest key needs. */
DEVICE uint32_t aes_encrypt_column(const struct aes_tables *t, const struct aes_column *c, uint32_t s, uint32_t lanes)
{
	uint32_t look[AES_COLUMNS];

	s ^= c->key[0];
	PRAGMA_UNROLL
	for (uint32_t round = 1; round < AES_MOST_ROUNDS; round++) {
		if (round >= AES_FEWEST_ROUNDS && round >= c->most)
			break;
		aes_lookup_columns(t, s, lanes, look);
		uint32_t next = c->key[round] ^ look[0] ^ rotate_left(look[1], 8) ^ rotate_left(look[2], 16) ^ rotate_left(look[3], 24);
		s = round < AES_FEWEST_ROUNDS || round < c->rounds ? next : s;
	}
	aes_lookup_columns(t, s, lanes, look); /* byte 1 of a table word is the plain S-box */
	return c->last ^ __byte_perm(__byte_perm(look[0], look[1], 0x0051), __byte_perm(look[2], look[3], 0x0051), 0x5410);
}

#endif
