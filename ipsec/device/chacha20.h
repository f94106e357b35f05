/* ChaCha20 (RFC 8439 section 2.3). Included by chachapoly.h. */
#ifndef WARPROUTE_ESP_CHACHA20_H
#define WARPROUTE_ESP_CHACHA20_H

#include "words.h"

DEVICE void chacha20_quarter(uint32_t s[16], uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	s[a] += s[b];
	s[d] = rotate_left(s[d] ^ s[a], 16);
	s[c] += s[d];
	s[b] = rotate_left(s[b] ^ s[c], 12);
	s[a] += s[b];
	s[d] = rotate_left(s[d] ^ s[a], 8);
	s[c] += s[d];
	s[b] = rotate_left(s[b] ^ s[c], 7);
}

/* Computes the 64-byte key stream of a counter. The key is in two halves; all words are in memory
 * order. */
DEVICE void chacha20_block(const uint32_t low[4], const uint32_t high[4], uint32_t counter,
			   const uint32_t nonce[3], uint32_t s[16])
{
	const uint32_t start[16] = {
		0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, low[0], low[1], low[2], low[3],
		high[0], high[1], high[2], high[3], counter, nonce[0], nonce[1], nonce[2],
	};

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 16; i++)
		s[i] = start[i];
	PRAGMA_UNROLL_1
	for (uint32_t i = 0; i < 10; i++) {
		chacha20_quarter(s, 0, 4, 8, 12);
		chacha20_quarter(s, 1, 5, 9, 13);
		chacha20_quarter(s, 2, 6, 10, 14);
		chacha20_quarter(s, 3, 7, 11, 15);
		chacha20_quarter(s, 0, 5, 10, 15);
		chacha20_quarter(s, 1, 6, 11, 12);
		chacha20_quarter(s, 2, 7, 8, 13);
		chacha20_quarter(s, 3, 4, 9, 14);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 16; i++)
		s[i] += start[i];
}

#endif
