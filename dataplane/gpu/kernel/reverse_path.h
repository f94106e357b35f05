/* Reverse-path filter (RFC 3704), with the CPU engine's results. Included by decide.h. */
#ifndef WARPROUTE_REVERSE_PATH_H
#define WARPROUTE_REVERSE_PATH_H

#include "fib.h"
#include "frame.h"
#include "ipv4.h"
#include "ipv6.h"
#include "tables.h"

#include "../../../lookup/trie/trie.h" /* after device.h, which defines TRIE_LOAD */

/* Loads the word of the port that received a frame, after the snapshot: the number of its VRF may be reused
 * in the next generation. */
DEVICE uint32_t load_ingress(const struct tables *t, struct snapshot s, struct frame f)
{
	uint32_t number = f.port % MAX_PORTS; /* without router flags */

	if (likely(t->hot && number < HOT_PORTS))
		return t->hot->ingress[number];
	return load32(&t->ingress[number + (s.generation >> 31)]);
}

/* Returns the filter mode that applies to a packet, by the word of its port: RPF_OFF if its IP header is
 * incomplete, or its port has router flags. */
DEVICE uint32_t rpf_mode(uint32_t word, const struct packet *p, struct frame f)
{
	uint32_t type = bswap16(p->header[3] >> 16);

	if (likely(word == 0) || f.port >= MAX_PORTS)
		return RPF_OFF;
	if (type == ETHERTYPE_IPV4 && f.len >= ETHERNET_LEN + IPV4_LEN)
		return reverse_path_ipv4(word);
	if (type == ETHERTYPE_IPV6 && f.len >= ETHERNET_LEN + IPV6_LEN)
		return reverse_path_ipv6(word);
	return RPF_OFF;
}

/* Continues the lookups of destination and source from their first words to their final words, with
 * both loads of a step in flight. The first words resolve a number of bytes of the addresses. */
DEVICE void lookup_both(struct snapshot s, const struct packet *p, int ipv4, uint32_t bytes, uint32_t *dst, uint32_t *src)
{
	const uint32_t *image = ipv4 ? s.ipv4 : s.ipv6;
	uint32_t to = 4 * (ipv4 ? IPV4_DST : IPV6_DST), from = 4 * (ipv4 ? IPV4_SRC : IPV6_SRC);
	uint32_t end = ipv4 ? 4 : 16; /* bound for a trie that changes meanwhile */

	PRAGMA_UNROLL_1
	for (uint32_t at = bytes; (*dst | *src) & TRIE_REFERENCE && at < end; at++) {
		uint32_t dst_word = *dst, src_word = *src;
		if (dst_word & TRIE_REFERENCE)
			*dst = trie_next(image, dst_word, byte_at(p, to + at));
		if (src_word & TRIE_REFERENCE)
			*src = trie_next(image, src_word, byte_at(p, from + at));
	}
}

#define BUCKETS_IN_FLIGHT 4

/* Returns whether any path of a forwarding next hop leaves by port. */
DEVICE int next_hop_uses_port(const struct tables *t, uint64_t hop, uint32_t port, uint32_t *dependency)
{
	uint32_t index = hop_index(hop), by = 0;

	if (!hop_is_group(hop)) {
		uint32_t number = adjacency_port(load_adjacency(t, index));
		*dependency |= number / MAX_PORTS;
		return number == port;
	}
	PRAGMA_UNROLL_1
	for (uint32_t i = 0; i < ECMP_BUCKETS && !by; i += BUCKETS_IN_FLIGHT) {
		uint32_t adjacencies[BUCKETS_IN_FLIGHT];
		PRAGMA_UNROLL
		for (uint32_t k = 0; k < BUCKETS_IN_FLIGHT; k++)
			adjacencies[k] = load32(&t->groups[index * ECMP_BUCKETS + i + k]);
		PRAGMA_UNROLL
		for (uint32_t k = 0; k < BUCKETS_IN_FLIGHT; k++) {
			uint32_t number = adjacency_port(load_adjacency(t, adjacencies[k]));
			*dependency |= number / MAX_PORTS;
			by |= number == port;
		}
	}
	return (int)by;
}

/* Returns whether the next hop of a packet's source passes the filter of the receiving port. *dependency
 * collects bits that are always 0: see load_generation. */
DEVICE int rpf_accepts(const struct tables *t, uint32_t mode, uint32_t port, uint32_t id, uint32_t *dependency)
{
	uint64_t hop = load_next_hop(t, id);

	*dependency |= hop_dependency(hop);
	if (hop_kind(hop) == KIND_FORWARD)
		return mode == RPF_LOOSE || next_hop_uses_port(t, hop, port, dependency);
	return mode == RPF_LOOSE && hop_kind(hop) == KIND_NO_PORT; /* through an interface that is not a port */
}

#endif
