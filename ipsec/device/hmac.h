/* HMAC (RFC 2104) with SHA-1, SHA-256 and SHA-512 over an ESP packet, by one lane. Included by
 * esp.h. */
#ifndef WARPROUTE_ESP_HMAC_H
#define WARPROUTE_ESP_HMAC_H

#include "packet.h"
#include "sha1.h"
#include "sha2.h"

/* The hashed input in words: the packet up to the end of its text, the upper half of a 64-bit
 * sequence number (RFC 4303 section 2.2.1), and padding (FIPS 180-4 section 5.1). */
struct hmac_input {
	const struct esp_packet *p;
	uint32_t packet; /* words of the packet */
	uint32_t end;    /* start of the padding, a single 1 bit */
	uint32_t size;   /* with the padding, which ends with the length in bits */
	uint32_t key;    /* words of the key block that the initial state includes */
};

DEVICE struct hmac_input hmac_input_of(const struct esp_key *k, const struct esp_packet *p)
{
	uint32_t packet = ESP_HEADER_WORDS + k->iv_words + p->words, end = packet + p->extended;
	uint32_t block = k->auth == ESP_SHA512 ? 32 : 16, padding = 1 + block / 8; /* the length in bits has 2 or 4 words */

	return (struct hmac_input){p, packet, end, (end + padding + block - 1) / block * block, block};
}

DEVICE uint32_t hmac_word(const struct hmac_input *in, uint32_t i)
{
	uint32_t sent = be32(PACKET_LOAD(in->p->esp + min32(i, in->packet - 1)));
	uint32_t padding = i == in->end ? 0x80000000 : i == in->size - 1 ? 32 * (in->key + in->end) : 0;

	return i < in->packet ? sent : i < in->end ? in->p->high : padding;
}

DEVICE void hmac_load(const struct hmac_input *in, uint32_t from, uint32_t *w, uint32_t n)
{
	if (from + n <= in->packet) {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < n; i++)
			w[i] = be32(PACKET_LOAD(in->p->esp + from + i));
	} else {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < n; i++)
			w[i] = hmac_word(in, from + i);
	}
}

/* Loads the inner digest as the only block of the outer hash. */
DEVICE void hmac_load_digest(const uint32_t h[16], uint32_t digest, uint32_t block, uint32_t w[32])
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 32; i++)
		w[i] = i == block - 1 ? 32 * (block + digest) : i == digest ? 0x80000000 : 0;
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 16; i++)
		w[i] = i < digest ? h[i] : w[i];
}

/* Loads a precomputed hash state: 16 words for SHA-512, at most 8 for the others. */
DEVICE void hmac_load_state(const struct esp_key *k, const struct esp_segment *state, uint32_t h[16])
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 16; i++)
		h[i] = i < 8 || k->auth == ESP_SHA512 ? state[i / 4].w[i % 4] : 0;
}

/* Computes the first 8 words of the code. ESP truncates it to the ICV. */
DEVICE void hmac(const struct esp_key *k, const struct esp_packet *p, uint32_t code[8])
{
	const struct hmac_input in = hmac_input_of(k, p);
	const uint32_t digest = k->auth == ESP_SHA1 ? 5 : k->auth == ESP_SHA256 ? 8 : 16;
	uint32_t h[16], w[32];

	hmac_load_state(k, esp_inner(k), h);
	PRAGMA_UNROLL_1
	for (uint32_t from = 0; from <= in.size; from += in.key) {
		if (from == in.size) {
			hmac_load_digest(h, digest, in.key, w);
			hmac_load_state(k, esp_outer(k), h);
		} else {
			hmac_load(&in, from, w, 16);
			if (k->auth == ESP_SHA512)
				hmac_load(&in, from + 16, w + 16, 16);
		}
		if (k->auth == ESP_SHA1)
			sha1_compress(h, w);
		else if (k->auth == ESP_SHA256)
			sha256_compress(h, w);
		else
			sha512_compress(h, w);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 8; i++)
		code[i] = be32(h[i]);
}

#endif
