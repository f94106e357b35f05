/* What is inside of an ESP packet that was opened, as package ipsec sees it: the same
 * checks, in the same order. Offsets are in bytes from the first line of the packet. */
#ifndef WARPROUTE_INNER_H
#define WARPROUTE_INNER_H

#include "checksum.h"
#include "job.h"
#include "layout.h"

#define PROTOCOL_NONE 59

/* A packet on the stage. */
struct inner {
	uint32_t ip, size; /* where it is, and how long */
	uint32_t type;     /* the EtherType */
};

DEVICE uint32_t staged_byte(const uint32_t *w, uint32_t at) { return w[at / 4] >> at % 4 * 8 & 0xff; }

DEVICE void stage_byte(uint32_t *w, uint32_t at, uint32_t v)
{
	w[at / 4] = (w[at / 4] & ~(0xffu << at % 4 * 8)) | v << at % 4 * 8;
}

/* The second half of the word at a multiple of 4, as a number, and in its place. */
DEVICE uint32_t second_half(const uint32_t *w, uint32_t at) { return swap16(w[at / 4] >> 16); }
DEVICE void set_second_half(uint32_t *w, uint32_t at, uint32_t v) { w[at / 4] = (w[at / 4] & 0xffff) | swap16(v) << 16; }

/* The sum of whole words as the machine has them. */
DEVICE uint64_t sum_words(const uint32_t *w, uint32_t at, uint32_t bytes)
{
	uint64_t sum = 0;

	for (uint32_t i = at / 4; i < (at + bytes) / 4; i++)
		sum += w[i];
	return sum;
}

/* The codepoint of ECN of a packet that leaves a tunnel (RFC 6040 section 4.2), 4 for
 * one that has to be dropped. */
DEVICE uint32_t ecn_out(uint32_t inner, uint32_t outer)
{
	if (outer == 3)
		return inner == 0 ? 4 : 3;
	return inner == 2 && outer == 1 ? 1 : inner;
}

/* Brings the ECN of the packet at ip up to date. */
DEVICE uint32_t pass_ecn(uint32_t *w, uint32_t ip, int ipv4, uint32_t outer)
{
	uint32_t tos = ipv4 ? staged_byte(w, ip + 1) : staged_byte(w, ip + 1) >> 4;
	uint32_t was = tos & 3, now = ecn_out(was, outer & 3);

	if (now == 4)
		return DROP_XFRM_IN_ECN_ERROR;
	if (now == was)
		return DROP_NONE;
	if (!ipv4) {
		stage_byte(w, ip + 1, (staged_byte(w, ip + 1) & ~0x30u) | now << 4);
		return DROP_NONE;
	}
	/* RFC 1624, equation 3. */
	uint32_t before = swap16(w[ip / 4] & 0xffff);
	stage_byte(w, ip + 1, (tos & ~3u) | now);
	uint32_t after = swap16(w[ip / 4] & 0xffff), held = second_half(w, ip + 8);
	set_second_half(w, ip + 8, ~fold((uint64_t)(~held & 0xffff) + (~before & 0xffff) + after) & 0xffff);
	return DROP_NONE;
}

/* The packet that a tunnel carried in room bytes at ip. */
DEVICE uint32_t unwrap(uint32_t *w, uint32_t room, uint32_t next, uint32_t tos, struct inner *in)
{
	uint32_t ip = in->ip, version = room < IPV4_LEN ? 0 : staged_byte(w, ip) >> 4, header = 0;

	if (version == 4 && next == PROTOCOL_IPV4) {
		header = (staged_byte(w, ip) & 0xf) * 4;
		in->size = second_half(w, ip);
		in->type = ETHERTYPE_IPV4;
	} else if (version == 6 && next == PROTOCOL_IPV6 && room >= IPV6_LEN) {
		header = IPV6_LEN;
		in->size = IPV6_LEN + swap16(w[ip / 4 + 1] & 0xffff);
		in->type = ETHERTYPE_IPV6;
	}
	if (header < IPV4_LEN || header > in->size || in->size > room)
		return DROP_XFRM_IN_STATE_MODE_ERROR;
	return pass_ecn(w, ip, version == 4, tos);
}

/* Moves the headers that were in front of ESP to the front of its payload. */
DEVICE void join_header(uint32_t *w, uint32_t from, uint32_t header, uint32_t next_at, uint32_t next, struct inner *in)
{
	uint32_t ip = in->ip;

	for (uint32_t i = header / 4; i-- > 0; )
		w[ip / 4 + i] = w[from / 4 + i];
	stage_byte(w, ip + next_at, next);
	if (staged_byte(w, ip) >> 4 == 4) {
		in->type = ETHERTYPE_IPV4;
		set_second_half(w, ip, in->size);
		set_second_half(w, ip + 8, 0);
		w[ip / 4 + 2] |= (~fold(sum_words(w, ip, header)) & 0xffff) << 16; /* the order of bytes is the sum's own */
	} else {
		in->type = ETHERTYPE_IPV6;
		w[ip / 4 + 1] = (w[ip / 4 + 1] & 0xffff0000) | swap16(in->size - IPV6_LEN);
	}
}

/* Finds the packet inside of one whose headers begin at outer, and whose text, of so many
 * bytes, was decrypted. */
DEVICE uint32_t find_inner(uint32_t *w, const struct job *j, uint32_t outer, uint32_t text, uint32_t bytes, struct inner *in)
{
	uint32_t next = staged_byte(w, text + bytes - 1), padding = staged_byte(w, text + bytes - 2);
	uint32_t detail = j->flags >> JOB_DETAIL, wrong = 0;

	if (padding + 2 > bytes)
		return DROP_XFRM_IN_STATE_PROTO_ERROR;
	uint32_t size = bytes - 2 - padding;
	for (uint32_t i = 0; i < padding; i++)
		wrong |= staged_byte(w, text + size + i) ^ (i + 1);
	if (wrong)
		return DROP_XFRM_IN_STATE_PROTO_ERROR;
	if (next == PROTOCOL_NONE)
		return DROP_XFRM_IN_DUMMY;
	if (!(j->flags & JOB_TRANSPORT)) {
		in->ip = text;
		return unwrap(w, size, next, detail, in);
	}
	in->ip = text - j->header;
	in->size = j->header + size;
	join_header(w, outer, j->header, detail, next, in);
	return DROP_NONE;
}

/* The checksum of UDP, the header of which is at udp in a packet of IPv6 (RFC 8200 section
 * 8.1). */
DEVICE void sum_udp(uint32_t *w, uint32_t ip, uint32_t udp, uint32_t bytes)
{
	w[udp / 4 + 1] &= 0xffff;
	uint64_t sum = sum_words(w, ip + 8, 32) + sum_words(w, udp, bytes) + swap16(bytes) + swap16(PROTOCOL_UDP);
	uint32_t checksum = ~fold(sum) & 0xffff;
	w[udp / 4 + 1] |= (checksum ? checksum : 0xffff) << 16;
}

#endif
