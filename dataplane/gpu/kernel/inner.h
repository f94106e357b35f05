/* Decapsulation of a decrypted ESP packet: the checks of package ipsec in the same order. Offsets
 * are in bytes from the packet's first segment in the staging buffer. Included by esp_batch.h. */
#ifndef WARPROUTE_INNER_H
#define WARPROUTE_INNER_H

#include "checksum.h"
#include "job.h"

#define PROTOCOL_NONE 59

/* The inner packet in the staging buffer. */
struct inner {
	uint32_t ip, size; /* offset and length in bytes */
	uint32_t type;     /* EtherType */
};

DEVICE uint32_t get_byte(const uint32_t *w, uint32_t at) { return w[at / 4] >> at % 4 * 8 & 0xff; }

DEVICE void set_byte(uint32_t *w, uint32_t at, uint32_t v)
{
	w[at / 4] = (w[at / 4] & ~(0xffu << at % 4 * 8)) | v << at % 4 * 8;
}

/* The upper half of the word at a multiple of 4, in host byte order. */
DEVICE uint32_t get_be16(const uint32_t *w, uint32_t at) { return bswap16(w[at / 4] >> 16); }
DEVICE void set_be16(uint32_t *w, uint32_t at, uint32_t v) { w[at / 4] = (w[at / 4] & 0xffff) | bswap16(v) << 16; }

/* Returns the sum of whole words in memory order. */
DEVICE uint64_t sum_words(const uint32_t *w, uint32_t at, uint32_t bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = at / 4; i < (at + bytes) / 4; i++)
		sum += w[i];
	return sum;
}

/* Returns the ECN codepoint of a decapsulated packet (RFC 6040 section 4.2), 4 for a packet to
 * drop. */
DEVICE uint32_t ecn_decapsulate(uint32_t inner, uint32_t outer)
{
	if (outer == 3)
		return inner == 0 ? 4 : 3;
	return inner == 2 && outer == 1 ? 1 : inner;
}

/* Applies the outer ECN codepoint to the packet at ip. Returns the drop reason. */
DEVICE uint32_t update_ecn(uint32_t *w, uint32_t ip, int ipv4, uint32_t outer)
{
	uint32_t tos = ipv4 ? get_byte(w, ip + 1) : get_byte(w, ip + 1) >> 4;
	uint32_t was = tos & 3, now = ecn_decapsulate(was, outer & 3);

	if (now == 4)
		return DROP_XFRM_IN_ECN_ERROR;
	if (now == was)
		return DROP_NONE;
	if (!ipv4) {
		set_byte(w, ip + 1, (get_byte(w, ip + 1) & ~0x30u) | now << 4);
		return DROP_NONE;
	}
	/* RFC 1624, equation 3. */
	uint32_t before = bswap16(w[ip / 4] & 0xffff);
	set_byte(w, ip + 1, (tos & ~3u) | now);
	uint32_t after = bswap16(w[ip / 4] & 0xffff), held = get_be16(w, ip + 8);
	set_be16(w, ip + 8, ~fold((uint64_t)(~held & 0xffff) + (~before & 0xffff) + after) & 0xffff);
	return DROP_NONE;
}

/* Validates the tunnelled packet in room bytes at ip. Returns the drop reason. */
DEVICE uint32_t unwrap_tunnel(uint32_t *w, uint32_t room, uint32_t next, uint32_t tos, struct inner *in)
{
	uint32_t ip = in->ip, version = room < IPV4_LEN ? 0 : get_byte(w, ip) >> 4, header = 0;

	if (version == 4 && next == PROTOCOL_IPV4) {
		header = (get_byte(w, ip) & 0xf) * 4;
		in->size = get_be16(w, ip);
		in->type = ETHERTYPE_IPV4;
	} else if (version == 6 && next == PROTOCOL_IPV6 && room >= IPV6_LEN) {
		header = IPV6_LEN;
		in->size = IPV6_LEN + bswap16(w[ip / 4 + 1] & 0xffff);
		in->type = ETHERTYPE_IPV6;
	}
	if (header < IPV4_LEN || header > in->size || in->size > room)
		return DROP_XFRM_IN_STATE_MODE_ERROR;
	return update_ecn(w, ip, version == 4, tos);
}

/* Transport mode: moves the IP header in front of ESP to the front of its payload. */
DEVICE void restore_header(uint32_t *w, uint32_t from, uint32_t header, uint32_t next_at, uint32_t next,
			   struct inner *in)
{
	uint32_t ip = in->ip;

	for (uint32_t i = header / 4; i-- > 0; )
		w[ip / 4 + i] = w[from / 4 + i];
	set_byte(w, ip + next_at, next);
	if (get_byte(w, ip) >> 4 == 4) {
		in->type = ETHERTYPE_IPV4;
		set_be16(w, ip, in->size);
		set_be16(w, ip + 8, 0);
		w[ip / 4 + 2] |= (~fold(sum_words(w, ip, header)) & 0xffff) << 16; /* both sums are in memory order */
	} else {
		in->type = ETHERTYPE_IPV6;
		w[ip / 4 + 1] = (w[ip / 4 + 1] & 0xffff0000) | bswap16(in->size - IPV6_LEN);
	}
}

/* Finds the inner packet of one whose outer headers begin at outer and whose decrypted text has the
 * given length. Returns the drop reason. */
DEVICE uint32_t decapsulate(uint32_t *w, const struct job *j, uint32_t outer, uint32_t text, uint32_t bytes,
			    struct inner *in)
{
	uint32_t next = get_byte(w, text + bytes - 1), padding = get_byte(w, text + bytes - 2);
	uint32_t detail = j->flags >> JOB_ARG_SHIFT, wrong = 0;

	if (padding + 2 > bytes)
		return DROP_XFRM_IN_STATE_PROTO_ERROR;
	uint32_t size = bytes - 2 - padding;
	for (uint32_t i = 0; i < padding; i++)
		wrong |= get_byte(w, text + size + i) ^ (i + 1);
	if (wrong)
		return DROP_XFRM_IN_STATE_PROTO_ERROR;
	if (next == PROTOCOL_NONE)
		return DROP_XFRM_IN_DUMMY;
	if (!(j->flags & JOB_TRANSPORT)) {
		in->ip = text;
		return unwrap_tunnel(w, size, next, detail, in);
	}
	in->ip = text - j->ip_len;
	in->size = j->ip_len + size;
	restore_header(w, outer, j->ip_len, detail, next, in);
	return DROP_NONE;
}

/* Writes the checksum of the UDP header at udp in an IPv6 packet (RFC 8200 section 8.1). */
DEVICE void set_udp6_checksum(uint32_t *w, uint32_t ip, uint32_t udp, uint32_t bytes)
{
	w[udp / 4 + 1] &= 0xffff;
	uint64_t sum = sum_words(w, ip + 8, 32) + sum_words(w, udp, bytes) + bswap16(bytes) + bswap16(PROTOCOL_UDP);
	uint32_t checksum = ~fold(sum) & 0xffff;
	w[udp / 4 + 1] |= (checksum ? checksum : 0xffff) << 16;
}

#endif
