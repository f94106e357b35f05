/* SA lookup of received packets, for tiles with FIND_SAS: the host posts frames without having read them. The
 * device makes a job of ESP in its common form: behind an IP header without options or extension headers,
 * directly or in UDP, to an SA in tunnel mode with 32-bit sequence numbers. All other packets are the host's,
 * after they were classified (classify.h). Included by esp_batch.h. */
#ifndef WARPROUTE_FIND_SA_H
#define WARPROUTE_FIND_SA_H

#include "classify.h"

#define UDP_LEN 8
#define NO_SA 0xffffffffu

/* The headers of received ESP: offsets and lengths in bytes, from the IP header. */
struct esp_headers {
	uint32_t ip;         /* length of the IP header */
	uint32_t esp, bytes; /* of ESP: offset, and length to the end of the ICV */
	uint32_t tos;
	uint32_t in; /* HEADERS_IPV6 and HEADERS_UDP */
};

/* Finds ESP in a received packet. Returns 0 if it has none in the common form. */
DEVICE int find_esp(struct packet *p, uint32_t len, struct esp_headers *h)
{
	int ipv4;

	if (validate(p, len, &ipv4) != DROP_NONE || p->fragment)
		return 0;
	h->ip = ipv4 ? IPV4_LEN : IPV6_LEN;
	h->tos = ip_word(p, 0) >> (ipv4 ? 16 : 20) & 0xff;
	h->in = ipv4 ? 0 : HEADERS_IPV6;
	h->esp = h->ip;
	h->bytes = p->size - h->ip;
	if (p->l4 != h->ip)
		return 0;
	if (p->protocol == PROTOCOL_UDP && h->bytes >= UDP_LEN + 8 && half_at(p, h->ip + 2) == PORT_NATT) {
		uint32_t size = half_at(p, h->ip + 4);
		if (size > h->bytes || size < UDP_LEN)
			return 0;
		h->in |= HEADERS_UDP;
		h->esp += UDP_LEN;
		h->bytes = size - UDP_LEN;
	} else if (p->protocol != PROTOCOL_ESP) {
		return 0;
	}
	return h->bytes >= 8;
}

/* Returns the index of the SA's keys, or NO_SA. */
DEVICE uint32_t find_sa(const uint64_t *spis, const struct esp_key *keys, const struct packet *p, const struct esp_headers *h, uint32_t spi)
{
	uint32_t first = h->in & HEADERS_IPV6 ? IPV6_DST : IPV4_DST, words = h->in & HEADERS_IPV6 ? 4 : 1;

	for (uint32_t slot = spi * SPI_HASH >> SPI_SHIFT;; slot = (slot + 1) % SPI_SLOTS) {
		uint64_t entry = load64(spis + slot);
		if (!entry)
			return NO_SA;
		if (entry >> 32 != spi || entry == SPI_REMOVED)
			continue;
		const struct esp_key *k = keys + (uint32_t)entry;
		uint32_t differs = load32(&k->headers) ^ h->in;
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			differs |= i < words ? load32(&k->dst[i]) ^ p->header[HEADER_IP / 4 + first + i] : 0;
		if (!differs)
			return (uint32_t)entry;
	}
}

/* Bytes of an SA's key record. */
DEVICE uint32_t key_byte(const struct esp_key *k, uint32_t at) { return load32((const uint32_t *)k + at / 4) >> at % 4 * 8 & 0xff; }
#define KEY_BYTE(k, field) key_byte(k, __builtin_offsetof(struct esp_key, field))

/* The job of a packet, and its sequence number. */
struct found_job {
	struct job job;
	uint32_t seq;
};

/* Returns the job of a frame of len bytes, with its header in shared memory. A job that is not JOB_OPEN is the
 * host's. */
DEVICE_CALL struct found_job find_job(const uint64_t *spis, const struct esp_key *keys, uint32_t *header, uint32_t len)
{
	struct found_job none = {{0, 0, 0, 0, 0, JOB_NONE}, 0};
	struct job j = none.job;
	struct packet p = {header, HEADER_BYTES, (uint8_t *)header + HEADER_IP, 0, 0, 0, 0};
	struct esp_headers h;

	if (!find_esp(&p, len, &h))
		return none;
	uint32_t spi = word_at(&p, h.esp), key = spi ? find_sa(spis, keys, &p, &h, spi) : NO_SA;
	if (key == NO_SA)
		return none;
	const struct esp_key *k = keys + key;
	uint32_t segments = KEY_BYTE(k, segments), hash = KEY_BYTE(k, hash);
	if (h.bytes < 8 + 4 * KEY_BYTE(k, iv_words) + 2 + 4 * KEY_BYTE(k, icv_words))
		return none;
	if (KEY_BYTE(k, cipher) == ESP_GCM)
		segments = hash + min32(ESP_POWERS, h.bytes / SEGMENT);
	j.key = key | segments << JOB_KEY_SEGMENTS_SHIFT;
	j.esp = (uint16_t)(ETHERNET_LEN + h.esp);
	j.bytes = (uint16_t)h.bytes;
	j.ip_len = (uint16_t)h.ip;
	j.flags = (uint16_t)(JOB_OPEN | h.tos << JOB_ARG_SHIFT);
	return (struct found_job){j, word_at(&p, h.esp + 4)};
}

/* Stores a report to the host about a lane's packet, in place of a job: its lower and its upper half. */
DEVICE void store_report(const struct mailbox *m, const struct tile *tile, uint32_t low, uint32_t high)
{
	host_store64((uint64_t *)(tile->slot + m->jobs) + packet_index(tile), low | (uint64_t)high << 32);
}

/* Reports the index of the keys of a packet's SA, and the sequence number of an opened packet, or the length of a sealed one and
 * REPORT_SEQS_LOW. */
DEVICE void report_sa(const struct mailbox *m, const struct tile *tile, uint32_t key, uint32_t word)
{
	store_report(m, tile, key, word);
}

/* Reports the sequence number of a packet that the host seals. */
DEVICE void report_seq(const struct mailbox *m, const struct tile *tile, uint64_t seq)
{
	store_report(m, tile, (uint32_t)seq, (uint32_t)(seq >> 32));
}

#endif
