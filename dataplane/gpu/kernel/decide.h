/* Forwarding decision for one packet: byte for byte the CPU engine's. Included by warp_batch.h. */
#ifndef WARPROUTE_DECIDE_H
#define WARPROUTE_DECIDE_H

#include "fib.h"
#include "flow.h"
#include "frame.h"
#include "ipv4.h"
#include "ipv6.h"
#include "reverse_path.h"
#include "tables.h"
#include "tunnel.h"

#include "../../../lookup/trie/trie.h" /* after device.h, which defines TRIE_LOAD */

/* Reverse-path filtering and VRFs on the device. The gateway kernel disables both: the host has verified
 * sources, the inner source of a tunnel is not subject to it, and ports of a gateway have no VRF. */
#ifndef CHECK_REVERSE_PATH
#define CHECK_REVERSE_PATH 1
#endif

/* VLAN tags that the device adds. The gateway kernel disables them: the host adds those of a gateway, whose packets move. */
#ifndef ADD_TAGS
#define ADD_TAGS 1
#endif

/* A forwarding decision before the generation check. */
struct candidate {
	struct result result;
	struct packet packet;
	int ipv4;
	int partial_checksum;     /* the packet may have a partial L4 checksum (Linux's CHECKSUM_PARTIAL) */
	uint64_t adjacency, port; /* forward: words with the link addresses to write, */
	uint32_t tag;             /* and the VLAN tag, in memory order; 0 for none */
	int uses_tables;          /* the result depends on tables */
	uint32_t dependency;      /* always 0: see load_generation */
};

/* Validates the IPv4 or IPv6 packet of a frame. Returns the drop reason. */
DEVICE uint32_t validate(struct packet *p, uint32_t len, int *ipv4)
{
	uint32_t type = bswap16(p->header[3] >> 16);

	*ipv4 = type == ETHERTYPE_IPV4;
	if (len < ETHERNET_LEN)
		return DROP_TOO_SHORT;
	if (type == ETHERTYPE_IPV4)
		return ipv4_validate(p, len - ETHERNET_LEN);
	if (type == ETHERTYPE_IPV6)
		return ipv6_validate(p, len - ETHERNET_LEN);
	return DROP_ETHER_TYPE;
}

/* Returns the trie's root word for a packet's destination. It is loaded before validation to
 * overlap with it: every address has a root word. */
DEVICE uint32_t lookup_dst_root(struct snapshot s, const struct packet *p)
{
	int ipv4 = p->header[3] >> 16 == bswap16(ETHERTYPE_IPV4);

	return trie_root(ipv4 ? s.ipv4 : s.ipv6, ip_word(p, ipv4 ? IPV4_DST : IPV6_DST));
}

/* Returns the trie's root word for a packet's source. */
DEVICE uint32_t lookup_src_root(struct snapshot s, const struct packet *p)
{
	int ipv4 = p->header[3] >> 16 == bswap16(ETHERTYPE_IPV4);

	return trie_root(ipv4 ? s.ipv4 : s.ipv6, ip_word(p, ipv4 ? IPV4_SRC : IPV6_SRC));
}

/* Returns the trie's word at which lookups of a packet's addresses in a VRF start. */
DEVICE uint32_t lookup_vrf_word(struct snapshot s, const struct packet *p, uint32_t vrf)
{
	int ipv4 = p->header[3] >> 16 == bswap16(ETHERTYPE_IPV4);

	return trie_vrf(ipv4 ? s.ipv4 : s.ipv6, vrf);
}

/* Returns the next-hop index of a final word. A VRF has no default route outside of its words. */
DEVICE uint32_t next_hop_in(struct snapshot s, int ipv4, uint32_t vrf, uint32_t word)
{
	return unlikely(vrf) ? word & TRIE_NEXT_HOP_MASK : trie_next_hop(ipv4 ? s.ipv4 : s.ipv6, word);
}

/* Returns the next-hop index of a packet's destination in a VRF, from the VRF's word or a final word on. */
DEVICE uint32_t lookup_dst_in_vrf(struct snapshot s, const struct packet *p, int ipv4, uint32_t word)
{
	uint32_t at = 4 * (ipv4 ? IPV4_DST : IPV6_DST), end = at + (ipv4 ? 4 : 16);

	PRAGMA_UNROLL_1
	for (; word & TRIE_REFERENCE && at < end; at++)
		word = trie_next(ipv4 ? s.ipv4 : s.ipv6, word, byte_at(p, at));
	return word & TRIE_NEXT_HOP_MASK;
}

/* Returns the next-hop index of a packet's destination, from its root word on. */
DEVICE uint32_t lookup_dst(struct snapshot s, const struct packet *p, int ipv4, uint32_t word)
{
	if (ipv4) {
		if (word & TRIE_REFERENCE)
			word = trie_next(s.ipv4, word, ip_word(p, IPV4_DST));
		return trie_next_hop(s.ipv4, word);
	}
	for (uint32_t at = TRIE_ROOT_BITS / 8; word & TRIE_REFERENCE && at < 16; at++)
		word = trie_next(s.ipv6, word, byte_at(p, IPV6_DST * 4 + at));
	return trie_next_hop(s.ipv6, word);
}

/* Drop reasons by next-hop kind, one byte each. */
#define REASON_BYTE(kind, reason) ((uint64_t)(reason) << (kind) * 8)

DEVICE uint32_t drop_reason(uint32_t kind)
{
	const uint64_t reasons = REASON_BYTE(KIND_NONE, DROP_NO_ROUTE) | REASON_BYTE(KIND_LOCAL, DROP_LOCAL_DELIVERY) |
				 REASON_BYTE(KIND_BLACKHOLE, DROP_BLACKHOLE) | REASON_BYTE(KIND_UNREACHABLE, DROP_UNREACHABLE) |
				 REASON_BYTE(KIND_PROHIBIT, DROP_PROHIBIT) | REASON_BYTE(KIND_NO_PORT, DROP_NO_PORT) |
				 REASON_BYTE(KIND_NO_TABLE, DROP_NO_TABLE);
	return reasons >> kind % 8 * 8 & 0xff;
}

/* Computes the forwarding decision of a packet. It writes nothing, so it can be repeated. copied is the number of bytes of
 * header that are those of the frame. */
DEVICE struct candidate look_up(const struct tables *t, struct snapshot s, struct frame f, uint8_t *frame,
				const uint32_t *header, uint32_t copied)
{
	struct candidate c = {{0, 0, 0}, {header, copied, frame + ETHERNET_LEN, 0, 0, 0, 0}, 0, may_be_partial(t, f.port % MAX_PORTS), 0, 0, 0, 0, 0}; /* port without flags */
	struct packet *p = &c.packet;
	uint32_t dst_word = lookup_dst_root(s, p), src_word = 0;
	uint32_t ingress = CHECK_REVERSE_PATH ? load_ingress(t, s, f) : 0, vrf = ingress_vrf(ingress);
	uint32_t mode = CHECK_REVERSE_PATH ? rpf_mode(ingress, p, f) : RPF_OFF;
	if (unlikely(vrf))
		dst_word = src_word = lookup_vrf_word(s, p, vrf);
	else if (unlikely(mode != RPF_OFF))
		src_word = lookup_src_root(s, p);
	uint32_t reason = validate(p, f.len, &c.ipv4);

	if (unlikely(mode != RPF_OFF)) { /* before all other checks: an ICMP error would be sent to the source */
		lookup_both(s, p, c.ipv4, vrf ? 0 : TRIE_ROOT_BITS / 8, &dst_word, &src_word);
		c.uses_tables = 1;
		if (!rpf_accepts(t, mode, f.port, next_hop_in(s, c.ipv4, vrf, src_word), &c.dependency))
			reason = DROP_REVERSE_PATH;
	}
	if (unlikely(reason != DROP_NONE)) {
		c.result.verdict = verdict(ACTION_DROP, reason);
		return c;
	}
	uint32_t id = unlikely(vrf) ? lookup_dst_in_vrf(s, p, c.ipv4, dst_word) : lookup_dst(s, p, c.ipv4, dst_word);
	uint64_t hop = load_next_hop(t, id);
	c.uses_tables = 1;
	c.dependency |= hop_dependency(hop);
	if (unlikely(hop_kind(hop) != KIND_FORWARD)) {
		c.result.verdict = verdict(ACTION_DROP, drop_reason(hop_kind(hop)));
		return c;
	}
	uint32_t adjacency = hop_index(hop);
	if (unlikely(hop_is_group(hop))) {
		uint32_t first = c.ipv4 ? IPV4_SRC : IPV6_SRC, last = c.ipv4 ? IPV4_DST : IPV6_DST + 3;
		uint32_t bucket = flow_hash(p, first, last, t->seed) >> 24;
		adjacency = load32(&t->groups[adjacency * ECMP_BUCKETS + bucket]);
	}
	c.adjacency = load_adjacency(t, adjacency);
	uint32_t number = adjacency_port(c.adjacency);
	c.dependency |= adjacency_dependency(c.adjacency);
	c.port = load_port(t, number);
	if (ADD_TAGS && unlikely(adjacency_is_tagged(c.adjacency))) {
		uint64_t word = load_tag(t, number);
		c.dependency |= word >> 63;
		c.tag = (uint32_t)word;
	}
	c.result.addr = adjacency;
	if (port_mtu(c.port) == 0 || (ADD_TAGS && unlikely(c.tag) && f.addr % FRAME_BYTES < TAG_LEN + 2)) {
		c.result.verdict = verdict(ACTION_DROP, DROP_PORT_DOWN);
	} else if (p->size > limit_of(hop, c.port)) {
		c.result.len = (uint16_t)limit_of(hop, c.port);
		c.result.verdict = verdict(ACTION_DROP, DROP_MTU_EXCEEDED);
	} else if (word_mac(c.adjacency) == 0) {
		c.result.verdict = verdict(ACTION_HOLD, 0);
	} else {
		uint32_t more = c.tag ? TAG_LEN : 0;
		c.result.addr = f.addr - more;
		c.result.len = (uint16_t)(ETHERNET_LEN + p->size + more);
		c.result.verdict = verdict(ACTION_FORWARD, number);
	}
	return c;
}

/* Writes the first 32 header bytes with new link addresses and a decremented TTL or hop limit, without a VLAN tag. */
DEVICE void rewrite_untagged(const struct candidate *c, const uint32_t *header, uint32_t *to)
{
	uint64_t dst = word_mac(c->adjacency), src = word_mac(c->port);

	to[0] = (header[0] & 0xffff) | bswap32((uint32_t)(dst >> 32));
	to[1] = bswap32((uint32_t)dst);
	to[2] = bswap32((uint32_t)(src >> 16));
	to[3] = (header[3] & 0xffff0000) | bswap32((uint32_t)(src << 16));
	to[4] = header[4];
	to[5] = c->ipv4 ? header[5] : ipv6_decrement_hop_limit(header[5]);
	to[6] = c->ipv4 ? ipv4_decrement_ttl(header[6]) : header[6];
	to[7] = header[7];
}

/* Writes the first 32 bytes of the frame to send, from 2 before its Ethernet header on: with a VLAN tag, this is a word
 * further to the front. */
DEVICE void rewrite(const struct candidate *c, const uint32_t *header, uint32_t *to)
{
	rewrite_untagged(c, header, to);
	if (ADD_TAGS && unlikely(c->tag)) {
		uint32_t type = to[3] >> 16 << 16;
		PRAGMA_UNROLL
		for (uint32_t i = REWRITTEN_WORDS - 1; i > 4; i--)
			to[i] = to[i - 1];
		to[4] = type | c->tag >> 16;
		to[3] = (to[3] & 0xffff) | c->tag << 16;
	}
}

/* A forwarding decision. It is valid if generation equals the snapshot's; otherwise the tables
 * changed and the caller decides again with a new snapshot. */
struct decision {
	struct result result;
	uint32_t generation;
};

/* Decides on the packet of frame f.
 *
 *	frame   its Ethernet header in host memory: read beyond the header copy, and written to
 *	        complete an L4 checksum
 *	header  a copy of the 64 bytes from 2 before frame on, 4-byte aligned; bytes beyond the end
 *	        of the frame, and beyond copied_bytes of its address, are arbitrary
 *	to      receives 32 bytes: of the frame to send, from 2 before the address of the result on, or else of header */
DEVICE struct decision decide(const struct tables *t, struct snapshot s, struct frame f, uint8_t *frame,
			      const uint32_t *header, uint32_t *to)
{
	struct candidate c = look_up(t, s, f, frame, header, copied_bytes(f.addr));
	struct decision d = {c.result, s.generation};

	if (likely(c.uses_tables))
		d.generation = load_generation(t, c.dependency);
	if (likely(c.result.verdict >> 12 == ACTION_FORWARD)) {
		if (unlikely(c.partial_checksum) && d.generation == s.generation)
			complete_checksum(&c.packet, c.ipv4);
		rewrite(&c, header, to);
	} else {
		for (uint32_t i = 0; i < REWRITTEN_WORDS; i++)
			to[i] = header[i];
	}
	return d;
}

#endif
