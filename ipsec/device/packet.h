/* Layout of an ESP packet (RFC 4303 section 2): SPI, sequence number, IV, text, ICV. The text is
 * payload and trailer, in plaintext or ciphertext. Included by the ciphers and HMAC. */
#ifndef WARPROUTE_ESP_PACKET_H
#define WARPROUTE_ESP_PACKET_H

#include "key.h"
#include "words.h"

#define ESP_HEADER_WORDS 2

struct esp_packet {
	uint32_t *esp;     /* the SPI */
	uint32_t words;    /* words of text */
	uint32_t extended; /* 1: 64-bit sequence numbers */
	uint32_t high;     /* their upper half, host byte order */
};

/* Describes a packet of the given bytes, from the SPI to the end of the ICV. Returns 0 and leaves p
 * alone if it is not 4-byte aligned, too short, or not whole blocks: no sender sealed such a
 * packet. */
DEVICE int esp_packet_at(struct esp_packet *p, const struct esp_key *k, void *esp, uint32_t bytes,
			 uint32_t extended, uint32_t high)
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

/* Builds the additional authenticated data of combined ciphers (RFC 4106 section 5, RFC 7634
 * section 2.1), padded with zeros. */
DEVICE void esp_associated(const struct esp_packet *p, uint32_t block[4])
{
	block[0] = esp_header(p, 0);
	block[1] = p->extended ? be32(p->high) : esp_header(p, 1);
	block[2] = p->extended ? esp_header(p, 1) : 0;
	block[3] = 0;
}

/* Returns the 16-byte blocks of text; the last one may be shorter. */
DEVICE uint32_t esp_blocks(const struct esp_packet *p) { return (p->words + 3) / 4; }

/* Loads a block. A short last one ends with words of the ICV, which has at least as many. */
DEVICE void esp_load_block(const uint32_t *text, uint32_t block, uint32_t b[4])
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++)
		b[i] = PACKET_LOAD(text + 4 * block + i);
}

/* Clears the words of a block that are beyond the text. */
DEVICE void esp_trim_block(const struct esp_packet *p, uint32_t block, uint32_t b[4])
{
	PRAGMA_UNROLL
	for (uint32_t i = 1; i < 4; i++)
		b[i] = 4 * block + i < p->words ? b[i] : 0;
}

/* Stores n words at word offset from, cut at the end of the text. */
DEVICE void esp_store(const struct esp_packet *p, uint32_t *text, uint32_t from, const uint32_t *w, uint32_t n)
{
	if (from + n <= p->words) {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < n; i++)
			PACKET_STORE(text + from + i, w[i]);
	} else {
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < n; i++)
			if (from + i < p->words)
				PACKET_STORE(text + from + i, w[i]);
	}
}

#endif
