/* GHASH (NIST SP 800-38D section 6.4) by integer multiplication, which takes the same
 * time whatever the numbers. */
#ifndef WARPROUTE_ESP_GHASH_H
#define WARPROUTE_ESP_GHASH_H

#include "key.h"
#include "words.h"

/* Where x has an even bit, this has a's, elsewhere b's. */
DEVICE uint64_t ghash_pick(uint64_t x, uint64_t a, uint64_t b) { return (a & x) | (b & ~x); }

/* The carry-less product of two words.
 *
 * Of numbers with holes, only every fourth bit of which may be set, the integer product
 * has at every fourth bit the count of the ones that meet there: 8 at most, so that no
 * carry reaches the next count, and the count's lowest bit is the bit of the carry-less
 * product. Each word is four such numbers. */
DEVICE uint64_t ghash_multiply_words(uint32_t x, uint32_t y)
{
	const uint32_t holes = 0x11111111;
	uint64_t z[4];

	UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		z[i] = 0;
		UNROLL
		for (uint32_t j = 0; j < 4; j++)
			z[i] ^= (uint64_t)(x & holes << j) * (y & holes << (i - j) % 4);
	}
	return ghash_pick(0x3333333333333333, ghash_pick(0x5555555555555555, z[0], z[1]), ghash_pick(0x5555555555555555, z[2], z[3]));
}

/* The carry-less product of two numbers of two words, by three products of words
 * (Karatsuba). */
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

/* Multiplies y by a power of the key, as the key record has it.
 *
 * A block is four words, its last bytes in the lowest: bit 127 is the coefficient of
 * x^0. The product of two such numbers is one place short of being such a number, and
 * the record's powers are divided by x to make up for it. */
DEVICE void ghash_multiply(uint32_t y[4], const struct esp_block *power)
{
	uint32_t low[4], high[4], middle[4], z[8];
	const uint32_t p[4] = {power->w[0], power->w[1], power->w[2], power->w[3]};
	const uint32_t ys[2] = {y[0] ^ y[2], y[1] ^ y[3]}, ps[2] = {p[0] ^ p[2], p[1] ^ p[3]};

	ghash_multiply_pairs(y, p, low);
	ghash_multiply_pairs(y + 2, p + 2, high);
	ghash_multiply_pairs(ys, ps, middle);
	UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		z[i] = low[i];
		z[i + 4] = high[i];
	}
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		z[i + 2] ^= middle[i] ^ low[i] ^ high[i];
	/* Bit i of the lower half stands for x^(255-i), and x^128 = x^7 + x^2 + x + 1. */
	UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		z[i + 4] ^= z[i] ^ z[i] >> 1 ^ z[i] >> 2 ^ z[i] >> 7;
		z[i + 3] ^= z[i] << 31 ^ z[i] << 30 ^ z[i] << 25;
	}
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		y[i] = z[i + 4];
}

/* Adds a block, as it lies in memory. */
DEVICE void ghash_add(uint32_t y[4], const uint32_t block[4])
{
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		y[3 - i] ^= network(block[i]);
}

#endif
