/* AES by four lanes a block, each of which has a column of the state, a word: where a
 * block waits for the one before it, and lanes would be idle.
 *
 * ShiftRows gives a column one byte of each: a lane asks the three beside it for theirs
 * before a round, and looks up a byte of each in its own bank, as in aes.h. */
#ifndef WARPROUTE_ESP_COLUMN_H
#define WARPROUTE_ESP_COLUMN_H

#include "aes.h"
#include "team.h"

#define AES_COLUMNS 4
#define AES_FEWEST_ROUNDS 10
#define AES_MOST_ROUNDS 14

/* A column of the round keys. */
struct aes_column {
	uint32_t key[AES_MOST_ROUNDS], last;
	uint32_t rounds, most; /* of this block, and of any in the team */
};

/* Loads a lane's column, for the lanes of a team; those that have no key give no rounds. */
DEVICE struct aes_column aes_column_of(const struct esp_block *key, uint32_t rounds, uint32_t lane, uint32_t lanes)
{
	struct aes_column c;

	c.rounds = rounds;
	c.most = team_most(rounds, lanes);
	UNROLL
	for (uint32_t i = 0; i < AES_MOST_ROUNDS; i++)
		c.key[i] = i < rounds ? key[i].w[lane % AES_COLUMNS] : 0;
	c.last = rounds ? key[rounds].w[lane % AES_COLUMNS] : 0;
	return c;
}

/* Looks up what a column becomes of: a byte of each, from its own on. */
DEVICE void aes_look_columns(const struct aes_tables *t, uint32_t s, uint32_t lanes, uint32_t look[AES_COLUMNS])
{
	look[0] = s;
	UNROLL
	for (uint32_t i = 1; i < AES_COLUMNS; i++) /* all on their way at once */
		look[i] = team_next(s, i, AES_COLUMNS, lanes);
	UNROLL
	for (uint32_t i = 0; i < AES_COLUMNS; i++)
		look[i] = aes_look(t->encrypt, look[i], i);
}

/* Encrypts a block by four lanes: s is a column of it, and so is the result. All lanes of
 * the team come here, for as many rounds as any of them has. */
DEVICE uint32_t aes_encrypt_column(const struct aes_tables *t, const struct aes_column *c, uint32_t s, uint32_t lanes)
{
	uint32_t look[AES_COLUMNS];

	s ^= c->key[0];
	UNROLL
	for (uint32_t round = 1; round < AES_MOST_ROUNDS; round++) {
		if (round >= AES_FEWEST_ROUNDS && round >= c->most)
			break;
		aes_look_columns(t, s, lanes, look);
		uint32_t next = c->key[round] ^ look[0] ^ rotate_left(look[1], 8) ^ rotate_left(look[2], 16) ^ rotate_left(look[3], 24);
		s = round < AES_FEWEST_ROUNDS || round < c->rounds ? next : s;
	}
	aes_look_columns(t, s, lanes, look); /* the S-box alone is byte 1 of the table's words */
	return c->last ^ choose_bytes(choose_bytes(look[0], look[1], 0x0051), choose_bytes(look[2], look[3], 0x0051), 0x5410);
}

#endif
