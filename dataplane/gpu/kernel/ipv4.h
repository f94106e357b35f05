/* IPv4 validation and TTL decrement, with the CPU engine's results. Included by decide.h
 * and reverse_path.h. */
#ifndef WARPROUTE_IPV4_H
#define WARPROUTE_IPV4_H

#include "checksum.h"
#include "packet.h"

/* Word offsets in the IPv4 header. */
#define IPV4_SRC 3
#define IPV4_DST 4

DEVICE int ipv4_martian(uint32_t addr)
{
	return (addr >> 24) - 1 >= 223 || addr >> 24 == 127 || addr >> 16 == 0xa9fe;
}

/* Returns the sum of a header without options; 0xffff if its checksum is correct. */
DEVICE uint32_t ipv4_sum(const uint32_t *header)
{
	const uint32_t *h = header + HEADER_IP / 4;
	return fold((uint64_t)h[0] + h[1] + h[2] + h[3] + h[4]);
}

/* Validates a packet by RFC 1812 sections 5.2.2 and 5.3 and fills in p; room is the IP space of the
 * frame in bytes. Returns the drop reason. Checks run from the last to the first so that the first
 * failing one wins, as selects without warp divergence. */
DEVICE uint32_t ipv4_validate(struct packet *p, uint32_t room)
{
	uint32_t first = ip_word(p, 0), header = (first >> 24 & 0xf) * 4;
	uint32_t offset = ip_word(p, 1) & 0x3fff; /* more-fragments flag, offset in units of 8 bytes */
	uint32_t third = ip_word(p, 2), ttl = third >> 24;
	uint32_t sum = ipv4_sum(p->header);
	int src = ipv4_martian(ip_word(p, IPV4_SRC)), dst = ipv4_martian(ip_word(p, IPV4_DST));

	p->size = first & 0xffff;
	p->protocol = third >> 16 & 0xff;
	p->l4 = IPV4_LEN;
	p->fragment = offset != 0;

	uint32_t reason = ttl <= 1 ? DROP_TTL_EXPIRED : DROP_NONE;
	reason = (offset & 0x1fff) == 1 && p->protocol == PROTOCOL_TCP ? DROP_FRAGMENT_OVERLAP : reason;
	reason = dst ? DROP_DESTINATION_MARTIAN : reason;
	reason = src ? DROP_SOURCE_MARTIAN : reason;
	reason = sum != 0xffff ? DROP_BAD_CHECKSUM : reason;
	reason = p->size < IPV4_LEN || p->size > room ? DROP_BAD_LENGTH : reason;
	reason = header != IPV4_LEN ? DROP_HEADER_LENGTH : reason;
	reason = header > IPV4_LEN && header <= p->size ? DROP_IP_OPTIONS : reason;
	reason = first >> 28 != 4 ? DROP_IP_VERSION : reason;
	return room < IPV4_LEN ? DROP_TOO_SHORT : reason;
}

/* Decrements the TTL in the word that has it and the checksum, which it updates by RFC 1624
 * equation 3. In memory order m' - m is -1, and the sum is the same (RFC 1071, 2B). */
DEVICE uint32_t ipv4_decrement_ttl(uint32_t word)
{
	uint32_t sum = (~word >> 16) + 0xfffe;
	sum = (sum >> 16) + (sum & 0xffff);
	return ~sum << 16 | ((word - 1) & 0xffff);
}

#endif
