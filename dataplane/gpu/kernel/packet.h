/* Header access: network byte order in memory, host byte order in registers. Included by all packet
 * parsers. */
#ifndef WARPROUTE_PACKET_H
#define WARPROUTE_PACKET_H

#include "device.h"
#include "layout.h"

/* Assigned numbers that package packet does not export. */
#define ETHERTYPE_ETHERNET 0x6558 /* transparent Ethernet bridging */
#define PROTOCOL_IPV4 4
#define PROTOCOL_DCCP 33
#define PROTOCOL_IPV6 41
#define PROTOCOL_GRE 47
#define PROTOCOL_ESP 50
#define PROTOCOL_SCTP 132
#define PROTOCOL_UDPLITE 136

/* A header is a copy of the HEADER_BYTES from 2 before the Ethernet header on, which aligns the IP
 * header to 4 bytes. */
#define HEADER_IP 16      /* byte offset of the IP header */
#define PORTS_WORD 14     /* word with the ports of IPv6 without extension headers */
#define REWRITTEN_WORDS 8 /* 4-byte words that forwarding changes, from the first on */

/* Returns the number of words between the last multiple of 16 bytes and the header of a frame: 0 as ports receive frames, and
 * 1 more for each VLAN tag that the host has removed. */
DEVICE uint32_t words_before(uint32_t addr) { return (addr - 2) % 16 / 4; }

/* Returns the number of bytes of a header copy that are certainly those of the frame. They have a whole IPv6 header behind up to
 * MAX_TAGS removed tags. */
DEVICE uint32_t copied_bytes(uint32_t addr) { return HEADER_BYTES - 4 * words_before(addr); }
static_assert(HEADER_BYTES - 4 * MAX_TAGS >= 4 * PORTS_WORD, "the copy has the IP header");

/* A parsed packet. Offsets count from its IP header. The frame is in host memory, one PCIe round
 * trip away: only bytes outside the header copy are read there, past all caches, which are not
 * coherent with the host. */
struct packet {
	const uint32_t *header; /* copy, in memory order */
	uint32_t copied;        /* its bytes */
	uint8_t *ip;            /* the IP header in the frame */
	uint32_t size;          /* bytes without L2 padding */
	uint32_t protocol;      /* of the transport header */
	uint32_t l4;            /* its offset, undefined for fragments */
	int fragment;
};

/* Returns word i of the IP header; i must be within the header copy. */
DEVICE uint32_t ip_word(const struct packet *p, uint32_t i) { return bswap32(p->header[HEADER_IP / 4 + i]); }

DEVICE uint32_t byte_at(const struct packet *p, uint32_t at)
{
	if (HEADER_IP + at < p->copied)
		return p->header[(HEADER_IP + at) / 4] >> at % 4 * 8 & 0xff;
	return *(const volatile uint8_t *)(p->ip + at);
}

DEVICE uint32_t half_at(const struct packet *p, uint32_t at) { return byte_at(p, at) << 8 | byte_at(p, at + 1); }

/* Returns the word at a multiple of 4. */
DEVICE uint32_t word_at(const struct packet *p, uint32_t at)
{
	if (HEADER_IP + at < p->copied)
		return ip_word(p, at / 4);
	return half_at(p, at) << 16 | half_at(p, at + 2);
}

/* Stores 16 bits in the frame, behind the header bytes that are written back. */
DEVICE void store_half(const struct packet *p, uint32_t at, uint32_t v)
{
	((volatile uint8_t *)p->ip)[at] = (uint8_t)(v >> 8);
	((volatile uint8_t *)p->ip)[at + 1] = (uint8_t)v;
}

#endif
