/* IPv6 extension headers, parsed as packet/extension.go does. Included by ipv6.h and tunnel.h. */
#ifndef WARPROUTE_EXTENSION_H
#define WARPROUTE_EXTENSION_H

#include "packet.h"

#define MAX_EXTENSION_HEADERS 8

DEVICE int is_extension(uint32_t protocol)
{
	return protocol == PROTOCOL_HOP_BY_HOP || protocol == PROTOCOL_ROUTING || protocol == PROTOCOL_FRAGMENT ||
	       protocol == PROTOCOL_AH || protocol == PROTOCOL_DEST_OPTIONS;
}

/* End of an extension header chain. */
struct chain {
	int valid;         /* neither truncated nor too long; otherwise the other fields are undefined */
	uint32_t protocol; /* first protocol that is no extension header */
	uint32_t at;       /* its offset */
	int fragment;      /* the packet is a fragment; a non-first one has payload at this offset */
	int routing0;      /* type 0 routing header with segments left (RFC 5095) */
};

/* Parses the chain that starts at offset at with a header of type next, in an IPv6 packet that ends
 * at end. */
DEVICE struct chain follow_chain(const struct packet *p, uint32_t next, uint32_t at, uint32_t end)
{
	struct chain c = {0, next, at, 0, 0};

	for (int headers = 0; headers <= MAX_EXTENSION_HEADERS; headers++) {
		if (!is_extension(c.protocol)) {
			c.valid = 1;
			break;
		}
		if (c.at + 8 > end)
			break;
		uint32_t length = (byte_at(p, c.at + 1) + 1) * 8;
		next = byte_at(p, c.at);
		if (c.protocol == PROTOCOL_ROUTING && byte_at(p, c.at + 2) == 0 && byte_at(p, c.at + 3) != 0)
			c.routing0 = 1;
		if (c.protocol == PROTOCOL_AH)
			length = (byte_at(p, c.at + 1) + 2) * 4;
		if (c.protocol == PROTOCOL_FRAGMENT) {
			length = 8;
			c.fragment = 1;
			if (half_at(p, c.at + 2) & 0xfff8) /* not the first fragment: payload follows */
				c.valid = 1;
		}
		if (c.at + length > end)
			break;
		c.protocol = next;
		c.at += length;
		if (c.valid)
			break;
	}
	return c;
}

#endif
