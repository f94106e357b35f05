/* SHA-256 and SHA-512 (FIPS 180-4 sections 6.2 and 6.4): the same rounds on 32-bit and 64-bit
 * words. Included by hmac.h. */
#ifndef WARPROUTE_ESP_SHA2_H
#define WARPROUTE_ESP_SHA2_H

#include "words.h"

/* Round constants of SHA-512. The upper halves of the first 64 are SHA-256's. */
CONSTANT uint64_t sha2_constants[80] = {
	0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
	0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
	0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
	0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
	0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
	0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
	0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
	0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
	0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
	0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
	0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
	0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
	0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
	0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
	0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
	0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
	0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
	0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
	0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
	0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

DEVICE uint64_t rotate_right64(uint64_t x, uint32_t n)
{
	uint32_t low = (uint32_t)(n < 32 ? x : x >> 32), high = (uint32_t)(n < 32 ? x >> 32 : x);

	return make_u64(__funnelshift_r(low, high, n % 32), __funnelshift_r(high, low, n % 32));
}

/* Compresses a block of words in host byte order into the state. The block is overwritten. */
DEVICE void sha256_compress(uint32_t h[8], uint32_t w[16])
{
	uint32_t s[8];

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 8; i++)
		s[i] = h[i];
	PRAGMA_UNROLL_1
	for (uint32_t from = 0;; from += 16) {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 16; i++) {
			uint32_t a = s[0], e = s[4];
			uint32_t t = s[7] + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) + (s[6] ^ (e & (s[5] ^ s[6]))) +
				     (uint32_t)(sha2_constants[from + i] >> 32) + w[i];
			uint32_t u = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
			PRAGMA_UNROLL
			for (uint32_t j = 7; j > 0; j--)
				s[j] = s[j - 1];
			s[4] += t;
			s[0] = t + u;
		}
		if (from == 48)
			break;
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 16; i++) {
			uint32_t x = w[(i + 1) % 16], y = w[(i + 14) % 16];
			w[i] += (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) + w[(i + 9) % 16] + (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
		}
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 8; i++)
		h[i] += s[i];
}

/* Compresses a block. State and block are pairs of words, upper halves first. */
DEVICE void sha512_compress(uint32_t h[16], const uint32_t block[32])
{
	uint64_t s[8], w[16];

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 8; i++)
		s[i] = make_u64(h[2 * i + 1], h[2 * i]);
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 16; i++)
		w[i] = make_u64(block[2 * i + 1], block[2 * i]);
	PRAGMA_UNROLL_1
	for (uint32_t from = 0;; from += 16) {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 16; i++) {
			uint64_t a = s[0], e = s[4];
			uint64_t t = s[7] + (rotate_right64(e, 14) ^ rotate_right64(e, 18) ^ rotate_right64(e, 41)) + (s[6] ^ (e & (s[5] ^ s[6]))) +
				     sha2_constants[from + i] + w[i];
			uint64_t u = (rotate_right64(a, 28) ^ rotate_right64(a, 34) ^ rotate_right64(a, 39)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
			PRAGMA_UNROLL
			for (uint32_t j = 7; j > 0; j--)
				s[j] = s[j - 1];
			s[4] += t;
			s[0] = t + u;
		}
		if (from == 64)
			break;
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 16; i++) {
			uint64_t x = w[(i + 1) % 16], y = w[(i + 14) % 16];
			w[i] += (rotate_right64(x, 1) ^ rotate_right64(x, 8) ^ x >> 7) + w[(i + 9) % 16] +
				(rotate_right64(y, 19) ^ rotate_right64(y, 61) ^ y >> 6);
		}
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 8; i++) {
		s[i] += make_u64(h[2 * i + 1], h[2 * i]);
		h[2 * i] = (uint32_t)(s[i] >> 32);
		h[2 * i + 1] = (uint32_t)s[i];
	}
}

#endif
