/* An ESP packet (RFC 4303 section 2) in memory: SPI, sequence number, IV, text, ICV.
 * The text is the payload with the trailer; before it is encrypted or after. */
#ifndef WARPROUTE_ESP_PACKET_H
#define WARPROUTE_ESP_PACKET_H

#include "key.h"
#include "words.h"

#define ESP_HEADER_WORDS 2

struct esp_packet {
	uint32_t *esp;     /* the SPI */
	uint32_t words;    /* of text */
	uint32_t extended; /* 1: sequence numbers have 64 bits */
	uint32_t high;     /* their upper half, in the machine's byte order */
};

/* A packet of so many bytes from the SPI to the end of the ICV. It is 0, and p is not
 * written, where the functions of this folder could not work on it: it does not lie at
 * a multiple of 4 bytes, is too short, or not whole blocks. Such a packet was never
 * sealed. */
DEVICE int esp_packet_at(struct esp_packet *p, const struct esp_key *k, void *esp, uint32_t bytes, uint32_t extended, uint32_t high)
{
	uint32_t around = ESP_HEADER_WORDS + k->iv_words + k->icv_words;

	if (((uintptr_t)esp | bytes) % 4 != 0 || bytes / 4 < around || (bytes / 4 - around) % k->align_words != 0)
		return 0;
	*p = (struct esp_packet){(uint32_t *)esp, bytes / 4 - around, extended, high};
	return 1;
}

DEVICE uint32_t esp_header(const struct esp_packet *p, uint32_t i) { return PACKET_LOAD(p->esp + i); }
DEVICE uint32_t esp_iv(const struct esp_packet *p, uint32_t i) { return PACKET_LOAD(p->esp + ESP_HEADER_WORDS + i); }
DEVICE uint32_t *esp_text(const struct esp_packet *p, const struct esp_key *k) { return p->esp + ESP_HEADER_WORDS + k->iv_words; }
DEVICE uint32_t *esp_icv(const struct esp_packet *p, const struct esp_key *k) { return esp_text(p, k) + p->words; }

/* What combined ciphers authenticate beside the text (RFC 4106 section 5, RFC 7634
 * section 2.1), filled up with zeros. */
DEVICE void esp_associated(const struct esp_packet *p, uint32_t block[4])
{
	block[0] = esp_header(p, 0);
	block[1] = p->extended ? network(p->high) : esp_header(p, 1);
	block[2] = p->extended ? esp_header(p, 1) : 0;
	block[3] = 0;
}

/* Blocks of text are of four words, the last one may be shorter. */
DEVICE uint32_t esp_blocks(const struct esp_packet *p) { return (p->words + 3) / 4; }

/* Loads a block. The last one may lack three words, and has the ICV's instead, which are
 * at least as many. */
DEVICE void esp_load_block(const uint32_t *text, uint32_t block, uint32_t b[4])
{
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		b[i] = PACKET_LOAD(text + 4 * block + i);
}

/* Makes zeros of what is not text in a block. */
DEVICE void esp_trim_block(const struct esp_packet *p, uint32_t block, uint32_t b[4])
{
	UNROLL
	for (uint32_t i = 1; i < 4; i++)
		b[i] = 4 * block + i < p->words ? b[i] : 0;
}

/* Stores n words of text, most often all of them, from a place on. */
DEVICE void esp_store(const struct esp_packet *p, uint32_t *text, uint32_t from, const uint32_t *w, uint32_t n)
{
	if (from + n <= p->words) {
		UNROLL
		for (uint32_t i = 0; i < n; i++)
			PACKET_STORE(text + from + i, w[i]);
	} else {
		UNROLL
		for (uint32_t i = 0; i < n; i++)
			if (from + i < p->words)
				PACKET_STORE(text + from + i, w[i]);
	}
}

#endif
