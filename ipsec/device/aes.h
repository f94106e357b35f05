/* AES (FIPS 197) with one table per direction: a round is four lookups per word, and rotations of
 * the table's word serve all four bytes. Included by the AES modes.
 *
 * Lookup addresses depend on secrets. On a device, shared memory has a copy of each table word in
 * all 32 banks and a lane reads its own bank, so a lookup has no bank conflicts and takes constant
 * time. On a host, where only tests run, there is one copy. */
#ifndef WARPROUTE_ESP_AES_H
#define WARPROUTE_ESP_AES_H

#include "key.h"
#include "words.h"

#define AES_COPIES (ON_DEVICE ? 32 : 1)

#if ON_DEVICE
#define AES_ISSUE(x)                                                                                                                                     \
	asm("" : "+r"(x[0][0]), "+r"(x[0][1]), "+r"(x[0][2]), "+r"(x[0][3]), "+r"(x[1][0]), "+r"(x[1][1]), "+r"(x[1][2]), "+r"(x[1][3]), \
	    "+r"(x[2][0]), "+r"(x[2][1]), "+r"(x[2][2]), "+r"(x[2][3]), "+r"(x[3][0]), "+r"(x[3][1]), "+r"(x[3][2]), "+r"(x[3][3]))
#else
#define AES_ISSUE(x)
#endif

/* Words of the tables with all copies: 32, 32 and 8 KiB on a device. */
#define AES_ENCRYPT_WORDS (256 * AES_COPIES)
#define AES_DECRYPT_WORDS (256 * AES_COPIES)
#define AES_INVERSE_WORDS (64 * AES_COPIES)

/* The tables, offset to a lane's own copy by aes_tables_of. */
struct aes_tables {
	const uint32_t *encrypt; /* S-box and MixColumns of a byte in the first row */
	const uint32_t *decrypt; /* the inverses; only CBC decryption uses this and the next table */
	const uint32_t *inverse; /* the inverse S-box, four bytes per word */
};

DEVICE struct aes_tables aes_tables_of(const uint32_t *encrypt, const uint32_t *decrypt,
				       const uint32_t *inverse, uint32_t lane)
{
	uint32_t copy = lane % AES_COPIES;

	return (struct aes_tables){encrypt + copy, decrypt + copy, inverse + copy};
}

/* The tables are computed, which is faster than loading them. Bytes are polynomials modulo x^8 +
 * x^4 + x^3 + x + 1. */
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

	PRAGMA_UNROLL_1
	for (uint32_t i = 0; i < 6; i++) /* x^3, x^7, ..., x^127 */
		power = aes_multiply(aes_multiply(power, power), x);
	return aes_multiply(power, power);
}

/* Returns the xor of a byte's left rotations by the bit numbers set in turns. */
DEVICE uint32_t aes_xor_rotations(uint32_t x, uint32_t turns)
{
	uint32_t r = 0;

	for (uint32_t n = 0; n < 8; n++)
		r ^= (x << n | x >> (8 - n)) & -(turns >> n & 1);
	return r & 0xff;
}

DEVICE uint32_t aes_sbox(uint32_t x) { return aes_xor_rotations(aes_reciprocal(x), 0x1f) ^ 0x63; }
DEVICE uint32_t aes_inverse_sbox(uint32_t x) { return aes_reciprocal(aes_xor_rotations(x ^ 0x63, 0x4a)); }

/* Writes all copies of a table word. Adjacent threads start in adjacent banks. */
DEVICE void aes_store_copies(uint32_t *table, uint32_t at, uint32_t word)
{
	for (uint32_t i = 0; i < AES_COPIES; i++)
		table[at * AES_COPIES + (at + i) % AES_COPIES] = word;
}

/* Fills the encryption table; each of threads calls it with its own number. */
DEVICE void aes_fill_encrypt(uint32_t *encrypt, uint32_t thread, uint32_t threads)
{
	PRAGMA_UNROLL_1
	for (uint32_t x = thread; x < 256; x += threads) {
		uint32_t s = aes_sbox(x);
		aes_store_copies(encrypt, x, aes_multiply(s, 2) | s << 8 | s << 16 | aes_multiply(s, 3) << 24);
	}
}

/* Fills the decryption tables. */
DEVICE void aes_fill_decrypt(uint32_t *decrypt, uint32_t *inverse, uint32_t thread, uint32_t threads)
{
	PRAGMA_UNROLL_1
	for (uint32_t x = thread; x < 256; x += threads) {
		uint32_t s = aes_inverse_sbox(x);
		aes_store_copies(decrypt, x, aes_multiply(s, 14) | aes_multiply(s, 9) << 8 | aes_multiply(s, 13) << 16 | aes_multiply(s, 11) << 24);
	}
	PRAGMA_UNROLL_1
	for (uint32_t at = thread; at < 64; at += threads) {
		uint32_t word = 0;
		PRAGMA_UNROLL_1
		for (uint32_t i = 0; i < 4; i++)
			word |= aes_inverse_sbox(4 * at + i) << 8 * i;
		aes_store_copies(inverse, at, word);
	}
}

/* Returns the table word of a byte. */
DEVICE uint32_t aes_lookup(const uint32_t *table, uint32_t word, uint32_t byte)
{
	return table[(uint64_t)byte_of(word, byte) * AES_COPIES];
}

/* The lookups of a round: [i][j] is the one of which column i of the result has row j. */
struct aes_lookups {
	uint32_t w[4][4];
};

/* Looks up the bytes of a round: for row j of column i, that of column i + step * j. ShiftRows has step 1, its inverse 3, which is -1.
 *
 * The lookups do not depend on each other, and a device executes them at once if the code issues all of them before it uses the first. In a
 * kernel that needs all its registers, the compilers prefer another order. AES_ISSUE forbids it in the PTX, and the driver's compiler has kept
 * that of the PTX (ptxas 11.8 and 12.4, sm_90). */
DEVICE struct aes_lookups aes_look_up(const uint32_t *table, const uint32_t s[4], uint32_t step)
{
	struct aes_lookups x;

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		PRAGMA_UNROLL
		for (uint32_t j = 0; j < 4; j++)
			x.w[i][j] = aes_lookup(table, s[(i + step * j) % 4], j);
	AES_ISSUE(x.w);
	return x;
}

/* A column of the state after a round. */
DEVICE uint32_t aes_mix(const uint32_t x[4], uint32_t key) { return key ^ x[0] ^ rotate_left(x[1], 8) ^ rotate_left(x[2], 16) ^ rotate_left(x[3], 24); }

/* A column of the state after the last round: byte 1 of a table word is the plain S-box. */
DEVICE uint32_t aes_last(const uint32_t x[4], uint32_t key)
{
	return key ^ __byte_perm(__byte_perm(x[0], x[1], 0x0051), __byte_perm(x[2], x[3], 0x0051), 0x5410);
}

/* Encrypts a block with the round keys at key, 10, 12 or 14 rounds. */
DEVICE void aes_encrypt(const struct aes_tables *t, const struct esp_segment *key, uint32_t rounds, uint32_t b[4])
{
	struct esp_segment k = *key; /* one 16-byte load */
	struct aes_lookups x;

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		b[i] ^= k.w[i];
	PRAGMA_UNROLL_1
	for (;;) {
		k = *++key;
		x = aes_look_up(t->encrypt, b, 1);
		if (--rounds == 0)
			break;
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			b[i] = aes_mix(x.w[i], k.w[i]);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		b[i] = aes_last(x.w[i], k.w[i]);
}

/* Encrypts two blocks with the same round keys. The lookups of one are under way while the columns of the other are mixed: for one block alone, a
 * lane waits for them in each round. */
DEVICE void aes_encrypt_two(const struct aes_tables *t, const struct esp_segment *key, uint32_t rounds, uint32_t a[4], uint32_t b[4])
{
	struct esp_segment k = *key;
	struct aes_lookups x, y;

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		a[i] ^= k.w[i];
		b[i] ^= k.w[i];
	}
	x = aes_look_up(t->encrypt, a, 1);
	PRAGMA_UNROLL_1
	for (;;) {
		k = *++key;
		y = aes_look_up(t->encrypt, b, 1);
		if (--rounds == 0)
			break;
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			a[i] = aes_mix(x.w[i], k.w[i]);
		x = aes_look_up(t->encrypt, a, 1);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			b[i] = aes_mix(y.w[i], k.w[i]);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		a[i] = aes_last(x.w[i], k.w[i]);
		b[i] = aes_last(y.w[i], k.w[i]);
	}
}

DEVICE uint32_t aes_inverse_lookup(const uint32_t *table, uint32_t word, uint32_t byte)
{
	uint32_t x = byte_of(word, byte);

	return (table[(uint64_t)(x / 4) * AES_COPIES] >> x % 4 * 8 & 0xff) << 8 * byte;
}

/* Decrypts a block. The round keys are those of the equivalent inverse cipher (FIPS 197 section
 * 5.3.5) in order of use. */
DEVICE void aes_decrypt(const struct aes_tables *t, const struct esp_segment *key, uint32_t rounds, uint32_t b[4])
{
	struct esp_segment k = *key; /* one 16-byte load */
	uint32_t s[4];

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		s[i] = b[i] ^ k.w[i];
	PRAGMA_UNROLL_1
	for (uint32_t round = 1; round < rounds; round++) {
		k = *++key;
		struct aes_lookups x = aes_look_up(t->decrypt, s, 3);
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			s[i] = aes_mix(x.w[i], k.w[i]);
	}
	k = *++key;
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		b[i] = k.w[i] ^ (aes_inverse_lookup(t->inverse, s[i], 0) | aes_inverse_lookup(t->inverse, s[(i + 3) % 4], 1) |
				 aes_inverse_lookup(t->inverse, s[(i + 2) % 4], 2) | aes_inverse_lookup(t->inverse, s[(i + 1) % 4], 3));
}

#endif
