/* Poly1305 (RFC 8439 section 2.5): numbers modulo 2^130 - 5 in five 26-bit limbs, which may be
 * slightly larger. Included by chachapoly.h. */
#ifndef WARPROUTE_ESP_POLY1305_H
#define WARPROUTE_ESP_POLY1305_H

#include "words.h"

#define POLY1305_LIMB 0x3ffffff

/* Returns 26 bits of two words, from bit n on. */
DEVICE uint32_t poly1305_cut(uint32_t low, uint32_t high, uint32_t n)
{
	return __funnelshift_r(low, high, n) & POLY1305_LIMB;
}

/* Adds 16 bytes, and one times 2^128. */
DEVICE void poly1305_add(uint32_t x[5], const uint32_t block[4], uint32_t one)
{
	x[0] += block[0] & POLY1305_LIMB;
	x[1] += poly1305_cut(block[0], block[1], 26);
	x[2] += poly1305_cut(block[1], block[2], 20);
	x[3] += poly1305_cut(block[2], block[3], 14);
	x[4] += block[3] >> 8 | one << 24;
}

/* Multiplies x by y. Input limbs are below 2^28; output limbs are below 2^26 except the second,
 * which may be slightly larger. */
DEVICE void poly1305_multiply(uint32_t x[5], const uint32_t y[5])
{
	uint64_t product[5], carry = 0;

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++) {
		product[i] = 0;
		PRAGMA_UNROLL
		for (uint32_t j = 0; j < 5; j++) /* 2^130 = 5 */
			product[i] += (uint64_t)x[j] * (j <= i ? y[i - j] : 5 * y[5 + i - j]);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++) {
		product[i] += carry;
		carry = product[i] >> 26;
		x[i] = (uint32_t)product[i] & POLY1305_LIMB;
	}
	carry = x[0] + carry * 5;
	x[0] = (uint32_t)carry & POLY1305_LIMB;
	x[1] += (uint32_t)(carry >> 26);
}

/* Clamps the first half of the key. */
DEVICE void poly1305_key(const uint32_t key[4], uint32_t r[5])
{
	const uint32_t clamped[4] = {key[0] & 0x0fffffff, key[1] & 0x0ffffffc, key[2] & 0x0ffffffc, key[3] & 0x0ffffffc};

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++)
		r[i] = 0;
	poly1305_add(r, clamped, 0);
}

/* Computes power = r^n and r = r^most. most is a power of two, n not larger. */
DEVICE void poly1305_powers(uint32_t r[5], uint32_t power[5], uint32_t n, uint32_t most)
{
	uint32_t factor[5];

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++)
		power[i] = i == 0;
	PRAGMA_UNROLL_1
	for (uint32_t bit = 1;; bit *= 2) {
		if (n & bit)
			poly1305_multiply(power, r);
		if (bit == most)
			return;
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 5; i++)
			factor[i] = r[i];
		poly1305_multiply(r, factor);
	}
}

/* Computes the tag from a sum with unreduced limbs and the second half of the key. */
DEVICE void poly1305_tag(const uint32_t sum[5], const uint32_t key[4], uint32_t tag[4])
{
	uint32_t x[5], y[5], carry = 0;

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++)
		x[i] = sum[i];
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 11; i++) { /* two full carry passes and one more step reach a fixed point */
		x[i % 5] += i % 5 == 0 ? 5 * carry : carry;
		carry = x[i % 5] >> 26;
		x[i % 5] &= POLY1305_LIMB;
	}
	/* x + 5 reaches 2^130 exactly if x is at least 2^130 - 5, and is then the reduced value. */
	carry = 5;
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++) {
		y[i] = x[i] + carry;
		carry = y[i] >> 26;
		y[i] &= POLY1305_LIMB;
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 5; i++)
		x[i] = (x[i] & ~-carry) | (y[i] & -carry);
	const uint32_t words[4] = {x[0] | x[1] << 26, x[1] >> 6 | x[2] << 20, x[2] >> 12 | x[3] << 14, x[3] >> 18 | x[4] << 8};
	uint64_t total = 0;
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		total += (uint64_t)words[i] + key[i];
		tag[i] = (uint32_t)total;
		total >>= 32;
	}
}

#endif
