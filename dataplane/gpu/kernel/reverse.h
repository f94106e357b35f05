/* From which sources a port takes packets: what package cpu's reverse.go does. */
#ifndef WARPROUTE_REVERSE_H
#define WARPROUTE_REVERSE_H

#include "ipv4.h"
#include "ipv6.h"
#include "layout.h"
#include "tables.h"

#include "../../../lookup/trie/trie.h" /* after device.h, which says how it loads words */

/* The word of the port that received a frame; that of any source if it bears a mark of the
 * router's. No route leads to it, and whoever looks may have the old one or the new one. */
DEVICE uint32_t load_reverse_path(const struct tables *t, struct frame f)
{
	if (MOSTLY(t->near && f.port < NEAR_PORTS))
		return t->near->reverse_paths[f.port];
	return f.port < MAX_PORTS ? load32(&t->reverse_paths[f.port]) : ANY_SOURCE;
}

/* What the port of a packet asks of its source, if the packet has a whole IP header. */
DEVICE uint32_t asked_of(const struct tables *t, const struct packet *p, struct frame f)
{
	uint32_t word = load_reverse_path(t, f), type = swap16(p->head[3] >> 16);

	if (MOSTLY(word == ANY_SOURCE))
		return ANY_SOURCE;
	if (type == ETHERTYPE_IPV4 && f.len >= ETHERNET_LEN + IPV4_LEN)
		return reverse_path_ipv4(word);
	if (type == ETHERTYPE_IPV6 && f.len >= ETHERNET_LEN + IPV6_LEN)
		return reverse_path_ipv6(word);
	return ANY_SOURCE;
}

/* Goes on with the lookups of a packet's destination and source, from the words at which
 * they begin to those at which they end: a step of one is under way with that of the other. */
DEVICE void walk_both(struct snapshot s, const struct packet *p, int ipv4, uint32_t *dst, uint32_t *src)
{
	const uint32_t *image = ipv4 ? s.ipv4 : s.ipv6;
	uint32_t to = 4 * (ipv4 ? IPV4_DST : IPV6_DST), from = 4 * (ipv4 ? IPV4_SRC : IPV6_SRC);
	uint32_t end = ipv4 ? 4 : 16; /* which comes where tables change meanwhile */

	ROLL
	for (uint32_t at = TRIE_ROOT_BITS / 8; (*dst | *src) & TRIE_REFERENCE && at < end; at++) {
		uint32_t there = *dst, back = *src;
		if (there & TRIE_REFERENCE)
			*dst = trie_next(image, there, byte_at(p, to + at));
		if (back & TRIE_REFERENCE)
			*src = trie_next(image, back, byte_at(p, from + at));
	}
}

#define BUCKETS_AT_ONCE 4

/* Whether flows may take a port by a next hop that forwards. */
DEVICE int leads_by(const struct tables *t, uint64_t hop, uint32_t port, uint32_t *zero)
{
	uint32_t index = hop_index(hop), by = 0;

	if (!hop_is_group(hop)) {
		uint32_t number = adjacency_port(load_adjacency(t, index));
		*zero |= number / MAX_PORTS;
		return number == port;
	}
	ROLL
	for (uint32_t i = 0; i < GROUP_BUCKETS && !by; i += BUCKETS_AT_ONCE) {
		uint32_t adjacencies[BUCKETS_AT_ONCE];
		UNROLL
		for (uint32_t k = 0; k < BUCKETS_AT_ONCE; k++)
			adjacencies[k] = load32(&t->groups[index * GROUP_BUCKETS + i + k]);
		UNROLL
		for (uint32_t k = 0; k < BUCKETS_AT_ONCE; k++) {
			uint32_t number = adjacency_port(load_adjacency(t, adjacencies[k]));
			*zero |= number / MAX_PORTS;
			by |= number == port;
		}
	}
	return (int)by;
}

/* Whether the next hop to a packet's source will do for the port that received it. *zero
 * stays 0, and comes from what was loaded (see turns_now). */
DEVICE int takes_from(const struct tables *t, uint32_t asked, uint32_t port, uint32_t id, uint32_t *zero)
{
	uint64_t hop = load_next_hop(t, id);

	*zero |= hop_zero(hop);
	if (hop_kind(hop) == KIND_FORWARD)
		return asked == LOOSE_SOURCE || leads_by(t, hop, port, zero);
	return asked == LOOSE_SOURCE && hop_kind(hop) == KIND_NO_PORT; /* by an interface of Linux's */
}

#endif
