/* AES (FIPS 197) by one table of words for a direction: a round is four look-ups a
 * word, and the table's word, turned, serves all four bytes.
 *
 * A lookup's address depends on secrets. On a device the tables lie in shared memory,
 * with a copy of every word in each of the 32 banks, and a lane looks into its own
 * bank: whatever the addresses, 32 lanes are served at once, and the time tells
 * nothing. On a host, where only tests run this, there is one copy. */
#ifndef WARPROUTE_ESP_AES_H
#define WARPROUTE_ESP_AES_H

#include "key.h"
#include "words.h"

#define AES_COPIES (ON_DEVICE ? 32 : 1)

/* The words of the tables with their copies: 32, 32 and 8 KiB on a device. */
#define AES_ENCRYPT_WORDS (256 * AES_COPIES)
#define AES_DECRYPT_WORDS (256 * AES_COPIES)
#define AES_INVERSE_WORDS (64 * AES_COPIES)

/* The tables, from a lane's own copy on: see aes_tables_of. */
struct aes_tables {
	const uint32_t *encrypt; /* S-box and MixColumns of a byte in the first row */
	const uint32_t *decrypt; /* their inverses; CBC decryption alone needs this and the next one */
	const uint32_t *inverse; /* the inverse S-box, four bytes a word */
};

DEVICE struct aes_tables aes_tables_of(const uint32_t *encrypt, const uint32_t *decrypt, const uint32_t *inverse, uint32_t lane)
{
	uint32_t copy = lane % AES_COPIES;

	return (struct aes_tables){encrypt + copy, decrypt + copy, inverse + copy};
}

/* The tables are computed, which takes a thread less time than to fetch them. Bytes
 * are polynomials modulo x^8 + x^4 + x^3 + x + 1. */
DEVICE uint32_t aes_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t i = 0; i < 8; i++) {
		product ^= a & -(b >> i & 1);
		a = a << 1 ^ (a >> 7) * 0x11b;
	}
	return product;
}

DEVICE uint32_t aes_reciprocal(uint32_t x)
{
	uint32_t power = x;

	ROLL
	for (uint32_t i = 0; i < 6; i++) /* x^3, x^7, ..., x^127 */
		power = aes_multiply(aes_multiply(power, power), x);
	return aes_multiply(power, power);
}

/* The xor of a byte turned left by some numbers of bits, which those of turns say. */
DEVICE uint32_t aes_turned(uint32_t x, uint32_t turns)
{
	uint32_t r = 0;

	for (uint32_t n = 0; n < 8; n++)
		r ^= (x << n | x >> (8 - n)) & -(turns >> n & 1);
	return r & 0xff;
}

DEVICE uint32_t aes_sbox(uint32_t x) { return aes_turned(aes_reciprocal(x), 0x1f) ^ 0x63; }
DEVICE uint32_t aes_inverse_sbox(uint32_t x) { return aes_reciprocal(aes_turned(x ^ 0x63, 0x4a)); }

/* Writes all copies of a table's word. Neighbouring threads begin in neighbouring
 * banks. */
DEVICE void aes_copy(uint32_t *table, uint32_t at, uint32_t word)
{
	for (uint32_t i = 0; i < AES_COPIES; i++)
		table[at * AES_COPIES + (at + i) % AES_COPIES] = word;
}

/* Fills the table of encryption, as one of threads that do so together. */
DEVICE void aes_fill_encrypt(uint32_t *encrypt, uint32_t thread, uint32_t threads)
{
	ROLL
	for (uint32_t x = thread; x < 256; x += threads) {
		uint32_t s = aes_sbox(x);
		aes_copy(encrypt, x, aes_multiply(s, 2) | s << 8 | s << 16 | aes_multiply(s, 3) << 24);
	}
}

/* Fills the tables of decryption. */
DEVICE void aes_fill_decrypt(uint32_t *decrypt, uint32_t *inverse, uint32_t thread, uint32_t threads)
{
	ROLL
	for (uint32_t x = thread; x < 256; x += threads) {
		uint32_t s = aes_inverse_sbox(x);
		aes_copy(decrypt, x, aes_multiply(s, 14) | aes_multiply(s, 9) << 8 | aes_multiply(s, 13) << 16 | aes_multiply(s, 11) << 24);
	}
	ROLL
	for (uint32_t at = thread; at < 64; at += threads) {
		uint32_t word = 0;
		ROLL
		for (uint32_t i = 0; i < 4; i++)
			word |= aes_inverse_sbox(4 * at + i) << 8 * i;
		aes_copy(inverse, at, word);
	}
}

/* What a table has for a byte of a word. */
DEVICE uint32_t aes_look(const uint32_t *table, uint32_t word, uint32_t byte)
{
	return table[(uint64_t)byte_of(word, byte) * AES_COPIES];
}

/* Encrypts a block with the keys of so many rounds. */
DEVICE void aes_encrypt(const struct aes_tables *t, const struct esp_block *key, uint32_t rounds, uint32_t b[4])
{
	const uint32_t *table = t->encrypt;
	struct esp_block k = *key; /* at once */
	uint32_t s[4], n[4];

	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		s[i] = b[i] ^ k.w[i];
	ROLL
	for (uint32_t round = 1; round < rounds; round++) {
		k = *++key;
		UNROLL
		for (uint32_t i = 0; i < 4; i++)
			n[i] = k.w[i] ^ aes_look(table, s[i], 0) ^ rotate_left(aes_look(table, s[(i + 1) % 4], 1), 8) ^
			       rotate_left(aes_look(table, s[(i + 2) % 4], 2), 16) ^ rotate_left(aes_look(table, s[(i + 3) % 4], 3), 24);
		UNROLL
		for (uint32_t i = 0; i < 4; i++)
			s[i] = n[i];
	}
	k = *++key;
	UNROLL
	for (uint32_t i = 0; i < 4; i++) { /* the S-box alone is byte 1 of the table's words */
		uint32_t low = choose_bytes(aes_look(table, s[i], 0), aes_look(table, s[(i + 1) % 4], 1), 0x0051);
		uint32_t high = choose_bytes(aes_look(table, s[(i + 2) % 4], 2), aes_look(table, s[(i + 3) % 4], 3), 0x0051);
		b[i] = k.w[i] ^ choose_bytes(low, high, 0x5410);
	}
}

DEVICE uint32_t aes_look_inverse(const uint32_t *table, uint32_t word, uint32_t byte)
{
	uint32_t x = byte_of(word, byte);

	return (table[(uint64_t)(x / 4) * AES_COPIES] >> x % 4 * 8 & 0xff) << 8 * byte;
}

/* Decrypts a block. The keys are those of the equivalent inverse cipher (FIPS 197
 * section 5.3.5), in the order of their use. */
DEVICE void aes_decrypt(const struct aes_tables *t, const struct esp_block *key, uint32_t rounds, uint32_t b[4])
{
	struct esp_block k = *key; /* at once */
	uint32_t s[4], n[4];

	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		s[i] = b[i] ^ k.w[i];
	ROLL
	for (uint32_t round = 1; round < rounds; round++) {
		k = *++key;
		UNROLL
		for (uint32_t i = 0; i < 4; i++)
			n[i] = k.w[i] ^ aes_look(t->decrypt, s[i], 0) ^ rotate_left(aes_look(t->decrypt, s[(i + 3) % 4], 1), 8) ^
			       rotate_left(aes_look(t->decrypt, s[(i + 2) % 4], 2), 16) ^ rotate_left(aes_look(t->decrypt, s[(i + 1) % 4], 3), 24);
		UNROLL
		for (uint32_t i = 0; i < 4; i++)
			s[i] = n[i];
	}
	k = *++key;
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		b[i] = k.w[i] ^ (aes_look_inverse(t->inverse, s[i], 0) | aes_look_inverse(t->inverse, s[(i + 3) % 4], 1) |
				 aes_look_inverse(t->inverse, s[(i + 2) % 4], 2) | aes_look_inverse(t->inverse, s[(i + 1) % 4], 3));
}

#endif
