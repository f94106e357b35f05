/* HMAC (RFC 2104) with SHA-1, SHA-256 and SHA-512 over an ESP packet, by one lane. */
#ifndef WARPROUTE_ESP_HMAC_H
#define WARPROUTE_ESP_HMAC_H

#include "packet.h"
#include "sha1.h"
#include "sha2.h"

/* What is hashed: the packet to the end of its text, the upper half of its sequence
 * number where that has 64 bits (RFC 4303 section 2.2.1), and the padding (FIPS 180-4
 * section 5.1). In words. */
struct hmac_input {
	const struct esp_packet *p;
	uint32_t packet; /* words of the packet */
	uint32_t end;    /* where the padding begins: with a one */
	uint32_t size;   /* with the padding, which ends with the number of bits */
	uint32_t key;    /* which the state has already, a block of it */
};

DEVICE struct hmac_input hmac_input_of(const struct esp_key *k, const struct esp_packet *p)
{
	uint32_t packet = ESP_HEADER_WORDS + k->iv_words + p->words, end = packet + p->extended;
	uint32_t block = k->auth == ESP_SHA512 ? 32 : 16, padding = 1 + block / 8; /* the number of bits has 2 words or 4 */

	return (struct hmac_input){p, packet, end, (end + padding + block - 1) / block * block, block};
}

DEVICE uint32_t hmac_word(const struct hmac_input *in, uint32_t i)
{
	uint32_t sent = network(PACKET_LOAD(in->p->esp + at_most(i, in->packet - 1)));
	uint32_t padding = i == in->end ? 0x80000000 : i == in->size - 1 ? 32 * (in->key + in->end) : 0;

	return i < in->packet ? sent : i < in->end ? in->p->high : padding;
}

DEVICE void hmac_load(const struct hmac_input *in, uint32_t from, uint32_t *w, uint32_t n)
{
	if (from + n <= in->packet) {
		UNROLL
		for (uint32_t i = 0; i < n; i++)
			w[i] = network(PACKET_LOAD(in->p->esp + from + i));
	} else {
		UNROLL
		for (uint32_t i = 0; i < n; i++)
			w[i] = hmac_word(in, from + i);
	}
}

/* Takes the first hash, of so many words, as the only block of the second one. */
DEVICE void hmac_load_digest(const uint32_t h[16], uint32_t digest, uint32_t block, uint32_t w[32])
{
	UNROLL
	for (uint32_t i = 0; i < 32; i++)
		w[i] = i == block - 1 ? 32 * (block + digest) : i == digest ? 0x80000000 : 0;
	UNROLL
	for (uint32_t i = 0; i < 16; i++)
		w[i] = i < digest ? h[i] : w[i];
}

/* Loads a state of the key's. That of SHA-512 has 16 words, others have 8 at most. */
DEVICE void hmac_load_state(const struct esp_key *k, const struct esp_block *state, uint32_t h[16])
{
	UNROLL
	for (uint32_t i = 0; i < 16; i++)
		h[i] = i < 8 || k->auth == ESP_SHA512 ? state[i / 4].w[i % 4] : 0;
}

/* The first 8 words of the code; ESP sends as many as the ICV has. */
DEVICE void hmac(const struct esp_key *k, const struct esp_packet *p, uint32_t code[8])
{
	const struct hmac_input in = hmac_input_of(k, p);
	const uint32_t digest = k->auth == ESP_SHA1 ? 5 : k->auth == ESP_SHA256 ? 8 : 16;
	uint32_t h[16], w[32];

	hmac_load_state(k, esp_inner(k), h);
	ROLL
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
	UNROLL
	for (uint32_t i = 0; i < 8; i++)
		code[i] = network(h[i]);
}

#endif
