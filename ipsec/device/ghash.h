/* GHASH (NIST SP 800-38D section 6.4) by integer multiplication in constant time. Included by
 * gcm.h. */
#ifndef WARPROUTE_ESP_GHASH_H
#define WARPROUTE_ESP_GHASH_H

#include "key.h"
#include "words.h"

/* Selects a's bits where x is set, b's elsewhere. */
DEVICE uint64_t ghash_pick(uint64_t x, uint64_t a, uint64_t b) { return (a & x) | (b & ~x); }

/* Returns the carry-less product of two words.
 *
 * A number with only every fourth bit set has an integer product whose bits count, at every
 * fourth bit, the ones that meet there: at most 8, so no carry reaches the next count, and the
 * lowest bit of a count is the bit of the carry-less product. A word is four such numbers.
 *
 * z[i] collects the products whose counts are at bits i, i + 4, ...: those of bits j of x and i - j of y. If j > i, y has bits i - j + 4, and all counts
 * are one place further up. So the sum of such a product and another one counts at most 8 + 7, and no carry reaches the next count. An addition
 * is part of the multiplication. */
DEVICE uint64_t ghash_multiply_words(uint32_t x, uint32_t y)
{
	const uint32_t holes = 0x11111111;
	uint64_t z[4];

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t p[4];
		PRAGMA_UNROLL
		for (uint32_t j = 0; j < 4; j++)
			p[j] = (uint64_t)(x & holes << j) * (y & holes << (i - j) % 4);
		z[i] = i == 0 ? (p[0] + p[1]) ^ p[2] ^ p[3] : i == 1 ? (p[0] + p[2]) ^ (p[1] + p[3]) : i == 2 ? (p[0] + p[3]) ^ p[1] ^ p[2] : p[0] ^ p[1] ^ p[2] ^ p[3];
	}
	return ghash_pick(0x3333333333333333, ghash_pick(0x5555555555555555, z[0], z[1]), ghash_pick(0x5555555555555555, z[2], z[3]));
}

/* Computes the carry-less product of two 64-bit numbers by three products of words (Karatsuba). */
DEVICE void ghash_multiply_pairs(const uint32_t x[2], const uint32_t y[2], uint32_t z[4])
{
	uint64_t low = ghash_multiply_words(x[0], y[0]);
	uint64_t high = ghash_multiply_words(x[1], y[1]);
	uint64_t middle = ghash_multiply_words(x[0] ^ x[1], y[0] ^ y[1]) ^ low ^ high;

	z[0] = (uint32_t)low;
	z[1] = (uint32_t)(low >> 32) ^ (uint32_t)middle;
	z[2] = (uint32_t)high ^ (uint32_t)(middle >> 32);
	z[3] = (uint32_t)(high >> 32);
}

/* Adds to z the product of y and a power of the hash key from the key record, which is not reduced.
 *
 * A block is four words with its last bytes in word 0: bit 127 is the coefficient of x^0. The
 * product of two such numbers is short by one position; the record's powers are divided by x to
 * compensate. */
DEVICE void ghash_add_product(uint32_t z[8], const uint32_t y[4], const struct esp_segment *power)
{
	uint32_t low[4], high[4], middle[4];
	const uint32_t p[4] = {power->w[0], power->w[1], power->w[2], power->w[3]};
	const uint32_t ys[2] = {y[0] ^ y[2], y[1] ^ y[3]}, ps[2] = {p[0] ^ p[2], p[1] ^ p[3]};

	ghash_multiply_pairs(y, p, low);
	ghash_multiply_pairs(y + 2, p + 2, high);
	ghash_multiply_pairs(ys, ps, middle);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		z[i] ^= low[i];
		z[i + 4] ^= high[i];
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		z[i + 2] ^= middle[i] ^ low[i] ^ high[i];
}

/* Reduces a sum of products to y: bit i of the lower half stands for x^(255-i), and x^128 = x^7 + x^2 + x + 1. */
DEVICE void ghash_reduce(uint32_t z[8], uint32_t y[4])
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		z[i + 4] ^= z[i] ^ z[i] >> 1 ^ z[i] >> 2 ^ z[i] >> 7;
		z[i + 3] ^= z[i] << 31 ^ z[i] << 30 ^ z[i] << 25;
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		y[i] = z[i + 4];
}

/* Multiplies y by a power of the hash key. */
DEVICE void ghash_multiply(uint32_t y[4], const struct esp_segment *power)
{
	uint32_t z[8] = {0, 0, 0, 0, 0, 0, 0, 0};

	ghash_add_product(z, y, power);
	ghash_reduce(z, y);
}

/* Adds a block in memory order. */
DEVICE void ghash_add(uint32_t y[4], const uint32_t block[4])
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		y[3 - i] ^= be32(block[i]);
}

#endif
