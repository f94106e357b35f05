/* Headers of packets to seal, for jobs with JOB_ENCAPSULATE: the host gives the SA and the sequence number, and
 * has not read the packet. The result equals ipsec.SA.Prepare's. Offsets are in bytes from the packet's first
 * segment in the staging buffer, and multiples of 4. Included by esp_batch.h. */
#ifndef WARPROUTE_ENCAPSULATE_H
#define WARPROUTE_ENCAPSULATE_H

#include "crypt.h"
#include "inner.h"

#define OUTER_HOP_LIMIT 64
#define IPV4_DF 0x400000 /* of the word with the fragment offset, in memory order */

/* The part of an outbound SA's record that headers are made of, in memory order. */
struct outbound {
	uint32_t headers, spi, ports;
	uint32_t dst[4], src[4];
	uint32_t base[2]; /* of nonces: the lower and the upper half, in host byte order */
};

/* Reads past the caches, as load_staged_set does. */
DEVICE struct outbound load_outbound(const struct esp_key *k)
{
	struct words4 first = host_load128(&k->tunnel), dst = host_load128(k->dst), src = host_load128(k->src), last = host_load128(k->base);
	struct outbound o = {first.w[1], first.w[2], first.w[3], {0, 0, 0, 0}, {0, 0, 0, 0}, {last.w[0], last.w[1]}};

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 4; i++) {
		o.dst[i] = dst.w[i];
		o.src[i] = src.w[i];
	}
	return o;
}

/* Fields of the inner header that the outer one copies. */
struct copied_fields {
	uint32_t tos, flow; /* flow: of IPv6, else 0 */
	int df;             /* always set for IPv6 */
};

/* Writes the outer header of bytes bytes in all, next header included (RFC 4301 section 5.1.2, RFC 6040 section 4.1). */
DEVICE void put_outer(uint32_t *h, const struct outbound *o, const struct copied_fields *f, uint32_t bytes, uint32_t seq)
{
	uint32_t next = o->headers & HEADERS_UDP ? PROTOCOL_UDP : PROTOCOL_ESP;

	if (o->headers & HEADERS_IPV6) {
		h[0] = bswap32(6u << 28 | f->tos << 20 | f->flow);
		h[1] = bswap16(bytes - IPV6_LEN) | next << 16 | OUTER_HOP_LIMIT << 24;
		PRAGMA_UNROLL
		for (uint32_t i = 0; i < 4; i++) {
			h[2 + i] = o->src[i];
			h[6 + i] = o->dst[i];
		}
		return;
	}
	h[0] = 0x45 | f->tos << 8 | bswap16(bytes) << 16;
	h[1] = bswap16(seq & 0xffff) | (o->headers & HEADERS_SET_DF || (o->headers & HEADERS_COPY_DF && f->df) ? IPV4_DF : 0);
	h[2] = OUTER_HOP_LIMIT | next << 8;
	h[3] = o->src[0];
	h[4] = o->dst[0];
	h[2] |= (~fold((uint64_t)h[0] + h[1] + h[2] + h[3] + h[4]) & 0xffff) << 16;
}

/* Writes padding and next header behind a packet of size bytes at text (RFC 4303 section 2.4). */
DEVICE void put_trailer(uint32_t *w, uint32_t text, uint32_t size, uint32_t pad, uint32_t next)
{
	uint32_t at = text + size;

	for (uint32_t i = 0; i < pad; i++)
		set_byte(w, at + i, i + 1);
	set_byte(w, at + pad, pad);
	set_byte(w, at + pad + 1, next);
}

/* Decrements the TTL of the packet at text, and writes all that is around it but the ICV. ip is the place of the outer
 * header, esp that of ESP. Returns nonzero, and changes nothing, if the packet is not as long as the job says. */
DEVICE_CALL uint32_t encapsulate(const struct esp_key *record, const struct esp_key *k, uint32_t *w, const struct job *j,
				 uint32_t ip, uint32_t esp)
{
	uint32_t text = esp + 4 * (ESP_HEADER_WORDS + k->iv_words), *inner = w + text / 4, first = inner[0];
	int ipv4 = (first >> 4 & 0xf) == 4;
	uint32_t size = ipv4 ? get_be16(w, text) : IPV6_LEN + bswap16(inner[1] & 0xffff);
	uint32_t used = size + 2, pad = -used & (4 * k->align_words - 1);
	struct copied_fields f = {first >> 8 & 0xff, 0, (inner[1] & IPV4_DF) != 0};
	uint32_t low = job_seq_low(j), high = job_seq_high(j);

	if (text - esp + used + pad + 4 * k->icv_words != j->bytes)
		return 1;
	if (ipv4)
		inner[2] = ipv4_decrement_ttl(inner[2]);
	else
		inner[1] = ipv6_decrement_hop_limit(inner[1]);
	if (!ipv4)
		f = (struct copied_fields){bswap32(first) >> 20 & 0xff, bswap32(first) & 0xfffff, 1};
	struct outbound o = load_outbound(record);
	w[ip / 4 - 1] = (w[ip / 4 - 1] & 0xffff) | bswap16(o.headers & HEADERS_IPV6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4) << 16;
	put_outer(w + ip / 4, &o, &f, esp - ip + j->bytes, low);
	if (o.headers & HEADERS_UDP) { /* RFC 3948 section 2.1 */
		w[esp / 4 - 2] = o.ports;
		w[esp / 4 - 1] = bswap16(8u + j->bytes);
	}
	w[esp / 4] = o.spi;
	w[esp / 4 + 1] = bswap32(low);
	uint64_t nonce = ((uint64_t)o.base[1] << 32 | o.base[0]) + ((uint64_t)high << 32 | low);
	uint32_t iv = text / 4 - k->iv_words;
	if (k->iv_words == 4)
		w[iv] = w[iv + 1] = 0;
	if (k->iv_words) {
		w[text / 4 - 2] = bswap32((uint32_t)(nonce >> 32));
		w[text / 4 - 1] = bswap32((uint32_t)nonce);
	}
	put_trailer(w, text, size, pad, ipv4 ? PROTOCOL_IPV4 : PROTOCOL_IPV6);
	return 0;
}

#endif
