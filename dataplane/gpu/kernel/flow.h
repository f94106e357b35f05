/* ECMP flow hash, equivalent to packet/flow.go. Included by decide.h. */
#ifndef WARPROUTE_FLOW_H
#define WARPROUTE_FLOW_H

#include "packet.h"

DEVICE uint32_t rotate(uint32_t x, int bits) { return x << bits | x >> (32 - bits); }

DEVICE uint32_t mix(uint32_t hash, uint32_t word)
{
	hash ^= rotate(word * 0xcc9e2d51, 15) * 0x1b873593;
	return rotate(hash, 13) * 5 + 0xe6546b64;
}

DEVICE uint32_t finish(uint32_t hash)
{
	hash ^= hash >> 16;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ hash >> 16;
}

/* Returns both ports of a transport protocol that starts with them, else 0. */
DEVICE uint32_t flow_ports(const struct packet *p)
{
	int has = p->protocol == PROTOCOL_TCP || p->protocol == PROTOCOL_UDP || p->protocol == PROTOCOL_DCCP ||
		  p->protocol == PROTOCOL_SCTP || p->protocol == PROTOCOL_UDPLITE;
	return has && p->l4 + 4 <= p->size ? word_at(p, p->l4) : 0;
}

/* Returns the flow hash of a packet whose addresses are words first to last of its IP header. */
DEVICE uint32_t flow_hash(const struct packet *p, uint32_t first, uint32_t last, uint32_t seed)
{
	uint32_t hash = seed;

	for (uint32_t i = first; i <= last; i++)
		hash = mix(hash, ip_word(p, i));
	if (!p->fragment) {
		hash = mix(hash, flow_ports(p));
		hash = mix(hash, p->protocol);
	}
	return finish(hash);
}

#endif
