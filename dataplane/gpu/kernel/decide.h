/* What becomes of a packet: the same, byte for byte, as package cpu does. */
#ifndef WARPROUTE_DECIDE_H
#define WARPROUTE_DECIDE_H

#include "flow.h"
#include "ipv4.h"
#include "ipv6.h"
#include "layout.h"
#include "reverse.h"
#include "tables.h"
#include "tunnel.h"

#include "../../../lookup/trie/trie.h" /* after device.h, which says how it loads words */

/* Not where the router has verified sources before a device has the packets, as a gateway's
 * does: what comes out of a tunnel is not asked, but what it came in. */
#ifndef VERIFY_SOURCES
#define VERIFY_SOURCES 1
#endif

/* What a look at a packet and at the tables found. */
struct choice {
	struct result result;
	struct packet packet;
	int ipv4;
	int repair;              /* the L4 checksum may be unfinished */
	uint64_t adjacency, port; /* forward: words with the link addresses to write */
	int looked;              /* the result depends on tables */
	uint32_t zero;           /* as turns_now wants it */
};

/* The packet of a frame, which is IPv4 or IPv6 and valid unless there is a reason to drop it. */
DEVICE uint32_t validate(struct packet *p, uint32_t len, int *ipv4)
{
	uint32_t type = swap16(p->head[3] >> 16);

	*ipv4 = type == ETHERTYPE_IPV4;
	if (len < ETHERNET_LEN)
		return DROP_TOO_SHORT;
	if (type == ETHERTYPE_IPV4)
		return ipv4_validate(p, len - ETHERNET_LEN);
	if (type == ETHERTYPE_IPV6)
		return ipv6_validate(p, len - ETHERNET_LEN);
	return DROP_ETHER_TYPE;
}

/* The word at which the lookup of a packet's destination begins. It is asked for
 * before anything is known of the packet, and is on its way while that is found out:
 * whatever stands there for an address, there is a word for it. */
DEVICE uint32_t begin_route(struct snapshot s, const struct packet *p)
{
	int ipv4 = p->head[3] >> 16 == swap16(ETHERTYPE_IPV4);

	return trie_root(ipv4 ? s.ipv4 : s.ipv6, header_word(p, ipv4 ? IPV4_DST : IPV6_DST));
}

/* That of its source. */
DEVICE uint32_t begin_back(struct snapshot s, const struct packet *p)
{
	int ipv4 = p->head[3] >> 16 == swap16(ETHERTYPE_IPV4);

	return trie_root(ipv4 ? s.ipv4 : s.ipv6, header_word(p, ipv4 ? IPV4_SRC : IPV6_SRC));
}

/* The next hop of the route to a packet's destination. */
DEVICE uint32_t route(struct snapshot s, const struct packet *p, int ipv4, uint32_t word)
{
	if (ipv4) {
		if (word & TRIE_REFERENCE)
			word = trie_next(s.ipv4, word, header_word(p, IPV4_DST));
		return trie_next_hop(s.ipv4, word);
	}
	for (uint32_t at = TRIE_ROOT_BITS / 8; word & TRIE_REFERENCE && at < 16; at++)
		word = trie_next(s.ipv6, word, byte_at(p, IPV6_DST * 4 + at));
	return trie_next_hop(s.ipv6, word);
}

/* The reason of each kind of next hop that leads nowhere, in bytes. */
#define REASON_OF(kind, reason) ((uint64_t)(reason) << (kind) * 8)

DEVICE uint32_t reason_of(uint32_t kind)
{
	const uint64_t reasons = REASON_OF(KIND_NONE, DROP_NO_ROUTE) | REASON_OF(KIND_LOCAL, DROP_LOCAL_DELIVERY) |
				 REASON_OF(KIND_BLACKHOLE, DROP_BLACKHOLE) | REASON_OF(KIND_UNREACHABLE, DROP_UNREACHABLE) |
				 REASON_OF(KIND_PROHIBIT, DROP_PROHIBIT) | REASON_OF(KIND_NO_PORT, DROP_NO_PORT);
	return reasons >> kind % 8 * 8 & 0xff;
}

/* Chooses what becomes of a packet and changes nothing, so that it can be done again. */
DEVICE struct choice look(const struct tables *t, struct snapshot s, struct frame f, uint8_t *body, const uint32_t *head)
{
	struct choice c = {{0, 0, 0}, {head, body + ETHERNET_LEN, 0, 0, 0, 0}, 0, needs_repair(t, f.port % MAX_PORTS), 0, 0, 0, 0}; /* without marks */
	struct packet *p = &c.packet;
	uint32_t first = begin_route(s, p), back = 0;
	uint32_t asked = VERIFY_SOURCES ? asked_of(t, p, f) : ANY_SOURCE;
	if (SELDOM(asked != ANY_SOURCE))
		back = begin_back(s, p);
	uint32_t reason = validate(p, f.len, &c.ipv4);

	if (SELDOM(asked != ANY_SOURCE)) { /* first of all: of what is wrong besides, sources may be told */
		walk_both(s, p, c.ipv4, &first, &back);
		c.looked = 1;
		if (!takes_from(t, asked, f.port, trie_next_hop(c.ipv4 ? s.ipv4 : s.ipv6, back), &c.zero))
			reason = DROP_REVERSE_PATH;
	}
	if (SELDOM(reason != DROP_NONE)) {
		c.result.verdict = verdict(ACTION_DROP, reason);
		return c;
	}
	uint64_t hop = load_next_hop(t, route(s, p, c.ipv4, first));
	c.looked = 1;
	c.zero |= hop_zero(hop);
	if (SELDOM(hop_kind(hop) != KIND_FORWARD)) {
		c.result.verdict = verdict(ACTION_DROP, reason_of(hop_kind(hop)));
		return c;
	}
	uint32_t adjacency = hop_index(hop);
	if (SELDOM(hop_is_group(hop))) {
		uint32_t first = c.ipv4 ? IPV4_SRC : IPV6_SRC, last = c.ipv4 ? IPV4_DST : IPV6_DST + 3;
		uint32_t bucket = flow_hash(p, first, last, t->seed) >> 24;
		adjacency = load32(&t->groups[adjacency * GROUP_BUCKETS + bucket]);
	}
	c.adjacency = load_adjacency(t, adjacency);
	uint32_t number = adjacency_port(c.adjacency);
	c.zero |= number / MAX_PORTS;
	c.port = load_port(t, number);
	c.result.addr = adjacency;
	if (port_mtu(c.port) == 0) {
		c.result.verdict = verdict(ACTION_DROP, DROP_PORT_DOWN);
	} else if (p->size > limit_of(hop, c.port)) {
		c.result.len = (uint16_t)limit_of(hop, c.port);
		c.result.verdict = verdict(ACTION_DROP, DROP_MTU_EXCEEDED);
	} else if (word_mac(c.adjacency) == 0) {
		c.result.verdict = verdict(ACTION_HOLD, 0);
	} else {
		c.result.addr = f.addr;
		c.result.len = (uint16_t)(ETHERNET_LEN + p->size);
		c.result.verdict = verdict(ACTION_FORWARD, number);
	}
	return c;
}

/* Puts the headers of the next link and one hop less in the place of a packet's. */
DEVICE void rewrite(const struct choice *c, const uint32_t *head, uint32_t *to)
{
	uint64_t dst = word_mac(c->adjacency), src = word_mac(c->port);

	to[0] = (head[0] & 0xffff) | swap32((uint32_t)(dst >> 32));
	to[1] = swap32((uint32_t)dst);
	to[2] = swap32((uint32_t)(src >> 16));
	to[3] = (head[3] & 0xffff0000) | swap32((uint32_t)(src << 16));
	to[4] = head[4];
	to[5] = c->ipv4 ? head[5] : ipv6_one_hop_less(head[5]);
	to[6] = c->ipv4 ? ipv4_one_hop_less(head[6]) : head[6];
	to[7] = head[7];
}

/* What was decided on a packet, if turns are still the snapshot's. Otherwise the
 * tables changed meanwhile: decide again, with a new snapshot. */
struct decision {
	struct result result;
	uint32_t turns;
};

/* Decides on the packet of frame f.
 *
 *	body  its Ethernet header, in the host's memory. It is read where the head does
 *	      not suffice, and written to finish an L4 checksum.
 *	head  a copy of the 64 bytes from 2 before body on, aligned to 4. What it has of
 *	      bytes beyond the frame's end does not matter.
 *	to    becomes the first 32 bytes of the head as they are to be in the frame */
DEVICE struct decision decide(const struct tables *t, struct snapshot s, struct frame f, uint8_t *body, const uint32_t *head, uint32_t *to)
{
	struct choice c = look(t, s, f, body, head);
	struct decision d = {c.result, s.turns};

	if (MOSTLY(c.looked))
		d.turns = turns_now(t, c.zero);
	if (MOSTLY(c.result.verdict >> 12 == ACTION_FORWARD)) {
		if (SELDOM(c.repair) && d.turns == s.turns)
			complete_checksum(&c.packet, c.ipv4);
		rewrite(&c, head, to);
	} else {
		for (uint32_t i = 0; i < HEAD_REWRITTEN; i++)
			to[i] = head[i];
	}
	return d;
}

#endif
