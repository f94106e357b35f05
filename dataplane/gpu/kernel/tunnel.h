/* Tunnelled packets, one level, parsed as packet/tunnel.go does. Included by decide.h. */
#ifndef WARPROUTE_TUNNEL_H
#define WARPROUTE_TUNNEL_H

#include "checksum.h"
#include "extension.h"

#define PORT_VXLAN 4789
#define PORT_VXLAN_LINUX 8472 /* Linux's default, older than the assignment */
#define PORT_GENEVE 6081

/* Finds the IP header in a segment's payload: returns its EtherType and sets *at. Returns 0 if
 * there is no tunnel. */
DEVICE uint32_t tunnel_payload(const struct packet *p, const struct l4_segment *s, uint32_t *at)
{
	uint32_t len = s->end - s->l4, type = 0;

	*at = s->l4;
	if (s->protocol == PROTOCOL_IPV4)
		return ETHERTYPE_IPV4;
	if (s->protocol == PROTOCOL_IPV6)
		return ETHERTYPE_IPV6;
	if (s->protocol == PROTOCOL_GRE && len >= 4) { /* RFC 2784, RFC 2890 */
		uint32_t flags = byte_at(p, s->l4); /* checksum, key, sequence number: 4 bytes each */
		*at += 4 + 4 * ((flags >> 7 & 1) + (flags >> 5 & 1) + (flags >> 4 & 1));
		type = half_at(p, s->l4 + 2);
	}
	if (s->protocol == PROTOCOL_UDP && len >= 16) {
		uint32_t port = half_at(p, s->l4 + 2);
		if (port == PORT_VXLAN || port == PORT_VXLAN_LINUX) { /* RFC 7348 */
			*at += 16;
			type = ETHERTYPE_ETHERNET;
		} else if (port == PORT_GENEVE) { /* RFC 8926 */
			*at += 16 + 4 * (byte_at(p, s->l4 + 8) & 0x3f);
			type = half_at(p, s->l4 + 10);
		}
	}
	if (type == ETHERTYPE_ETHERNET) {
		if (*at + ETHERNET_LEN > s->end)
			return 0;
		type = half_at(p, *at + 12);
		*at += ETHERNET_LEN;
	}
	return type;
}

/* Replaces s by the transport segment of the packet that it carries, and validates that packet.
 * Returns 0 if there is none. */
DEVICE int inner_l4_segment(const struct packet *p, struct l4_segment *s)
{
	uint32_t at, type = tunnel_payload(p, s, &at);

	if (type == ETHERTYPE_IPV4 && at + IPV4_LEN <= s->end) {
		uint32_t version = byte_at(p, at) >> 4, header = (byte_at(p, at) & 0xf) * 4, size = half_at(p, at + 2);
		int fragment = (half_at(p, at + 6) & 0x3fff) != 0;
		if (version != 4 || header < IPV4_LEN || size < header || at + size > s->end || fragment)
			return 0;
		struct l4_segment inner = {byte_at(p, at + 9), at + 12, 8, at + header, at + size};
		*s = inner;
		return 1;
	}
	if (type == ETHERTYPE_IPV6 && at + IPV6_LEN <= s->end) {
		uint32_t version = byte_at(p, at) >> 4, size = IPV6_LEN + half_at(p, at + 4);
		if (version != 6 || at + size > s->end)
			return 0;
		struct chain c = follow_chain(p, byte_at(p, at + 6), at + IPV6_LEN, at + size);
		struct l4_segment inner = {c.protocol, at + 8, 32, c.at, at + size};
		*s = inner;
		return c.valid && !c.fragment;
	}
	return 0;
}

/* Completes a partial L4 checksum of a packet, or of the packet in its tunnel.
 * Fragments are skipped: Linux completes checksums before it fragments. */
DEVICE void complete_checksum(const struct packet *p, int ipv4)
{
	struct l4_segment s = {p->protocol, ipv4 ? 12u : 8u, ipv4 ? 8u : 32u, p->l4, p->size};

	if (!p->fragment && !complete_l4_checksum(p, &s) && inner_l4_segment(p, &s))
		complete_l4_checksum(p, &s);
}

#endif
