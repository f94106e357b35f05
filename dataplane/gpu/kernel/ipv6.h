/* IPv6 validation and hop limit decrement, with the CPU engine's results. Included by
 * decide.h and reverse_path.h. */
#ifndef WARPROUTE_IPV6_H
#define WARPROUTE_IPV6_H

#include "extension.h"

/* Word offsets in the IPv6 header. */
#define IPV6_SRC 2
#define IPV6_DST 6

/* Returns whether the address at a header word must not be forwarded. */
DEVICE int ipv6_martian(const struct packet *p, uint32_t word)
{
	uint32_t a = ip_word(p, word), b = ip_word(p, word + 1);
	uint32_t c = ip_word(p, word + 2), d = ip_word(p, word + 3);
	int multicast = a >> 24 == 0xff, link_local = a >> 22 == 0xfe80 >> 6;
	int mapped = c == 0xffff, unspecified_or_loopback = (c == 0) & (d <= 1);

	return multicast | link_local | (((a | b) == 0) & (mapped | unspecified_or_loopback));
}

/* Validates a packet by RFC 8200 and RFC 4291, like ipv4_validate. */
DEVICE uint32_t ipv6_validate(struct packet *p, uint32_t room)
{
	uint32_t version = ip_word(p, 0) >> 28, second = ip_word(p, 1);
	uint32_t payload = second >> 16, next = second >> 8 & 0xff, hop_limit = second & 0xff;
	int src = ipv6_martian(p, IPV6_SRC), dst = ipv6_martian(p, IPV6_DST);

	p->size = IPV6_LEN + payload;
	p->protocol = next;
	p->l4 = IPV6_LEN;
	p->fragment = 0;

	int jumbogram = payload == 0 && next == PROTOCOL_HOP_BY_HOP; /* RFC 2675: longer than any frame */
	uint32_t reason = hop_limit <= 1 ? DROP_TTL_EXPIRED : DROP_NONE;
	reason = dst ? DROP_DESTINATION_MARTIAN : reason;
	reason = src ? DROP_SOURCE_MARTIAN : reason;
	reason = p->size > room || jumbogram ? DROP_BAD_LENGTH : reason;
	reason = version != 6 ? DROP_IP_VERSION : reason;
	reason = room < IPV6_LEN ? DROP_TOO_SHORT : reason;
	if (unlikely(reason == DROP_NONE && is_extension(next))) {
		struct chain c = follow_chain(p, next, IPV6_LEN, p->size);
		p->protocol = c.protocol;
		p->l4 = c.at;
		p->fragment = c.fragment;
		reason = !c.valid ? DROP_EXTENSION_HEADERS : c.routing0 ? DROP_ROUTING_HEADER : DROP_NONE;
	}
	return reason;
}

/* Decrements the hop limit in the word that has it. */
DEVICE uint32_t ipv6_decrement_hop_limit(uint32_t word) { return word - (1u << 24); }

#endif
