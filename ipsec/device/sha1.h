/* SHA-1 (FIPS 180-4 section 6.1). Included by hmac.h. */
#ifndef WARPROUTE_ESP_SHA1_H
#define WARPROUTE_ESP_SHA1_H

#include "words.h"

DEVICE uint32_t sha1_mix(uint32_t round, uint32_t b, uint32_t c, uint32_t d)
{
	if (round < 20)
		return ((b & c) | (~b & d)) + 0x5a827999;
	if (round < 40)
		return (b ^ c ^ d) + 0x6ed9eba1;
	if (round < 60)
		return ((b & c) | (d & (b | c))) + 0x8f1bbcdc;
	return (b ^ c ^ d) + 0xca62c1d6;
}

/* Compresses a block of words in host byte order into the state. The block is overwritten. */
DEVICE void sha1_compress(uint32_t h[5], uint32_t w[16])
{
	uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	PRAGMA_UNROLL
	for (uint32_t round = 0; round < 80; round++) {
		if (round >= 16)
			w[round % 16] = rotate_left(w[(round + 13) % 16] ^ w[(round + 8) % 16] ^ w[(round + 2) % 16] ^ w[round % 16], 1);
		uint32_t t = rotate_left(a, 5) + sha1_mix(round, b, c, d) + e + w[round % 16];
		e = d;
		d = c;
		c = rotate_left(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

#endif
