/* Reading headers: bytes in, numbers in host order out. */
#ifndef WARPROUTE_PACKET_H
#define WARPROUTE_PACKET_H

#include "device.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_ETHERNET 0x6558 /* transparent Ethernet bridging */

#define PROTOCOL_HOP_BY_HOP 0
#define PROTOCOL_IPV4 4
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_DCCP 33
#define PROTOCOL_IPV6 41
#define PROTOCOL_ROUTING 43
#define PROTOCOL_FRAGMENT 44
#define PROTOCOL_GRE 47
#define PROTOCOL_AH 51
#define PROTOCOL_DEST_OPTIONS 60
#define PROTOCOL_SCTP 132
#define PROTOCOL_UDPLITE 136

#define ETHERNET_LEN 14
#define IPV4_LEN 20 /* without options */
#define IPV6_LEN 40

/* The head of a frame is a copy of the 64 bytes from 2 before its Ethernet header on,
 * so that words of the IP header are words of the head. */
#define HEAD_LEN 64
#define HEAD_IP 16 /* where the IP header begins */
#define HEAD_REWRITTEN 8 /* words of the head that forwarding changes, of 4 bytes each */

/* A packet. All offsets in it count from its IP header.
 *
 * The frame itself lies in the host's memory, one PCIe round trip away: only what the
 * head does not have is read there, and past all caches, which a device does not keep
 * coherent with the host. */
struct packet {
	const uint32_t *head; /* as the machine loads words: little-endian */
	uint8_t *ip;          /* the IP header in the frame */
	uint32_t size;        /* of the packet in bytes, without L2 padding */
	uint32_t protocol;    /* of the transport header, */
	uint32_t l4;          /* which is there, */
	int fragment;         /* unless this is a fragment */
};

/* Word i of the IP header, within the head. */
DEVICE uint32_t header_word(const struct packet *p, uint32_t i) { return swap32(p->head[HEAD_IP / 4 + i]); }

DEVICE uint32_t byte_at(const struct packet *p, uint32_t at)
{
	if (HEAD_IP + at < HEAD_LEN)
		return p->head[(HEAD_IP + at) / 4] >> at % 4 * 8 & 0xff;
	return *(const volatile uint8_t *)(p->ip + at);
}

DEVICE uint32_t half_at(const struct packet *p, uint32_t at) { return byte_at(p, at) << 8 | byte_at(p, at + 1); }

/* The word at a multiple of 4. */
DEVICE uint32_t word_at(const struct packet *p, uint32_t at)
{
	if (HEAD_IP + at < HEAD_LEN)
		return header_word(p, at / 4);
	return half_at(p, at) << 16 | half_at(p, at + 2);
}

/* Stores in the frame alone, behind what is written back of the head. */
DEVICE void store_half(const struct packet *p, uint32_t at, uint32_t v)
{
	((volatile uint8_t *)p->ip)[at] = (uint8_t)(v >> 8);
	((volatile uint8_t *)p->ip)[at + 1] = (uint8_t)v;
}

#endif
