/* IPv6 extension headers, as packet/extension.go follows them. */
#ifndef WARPROUTE_EXTENSION_H
#define WARPROUTE_EXTENSION_H

#include "packet.h"

#define MAX_EXTENSION_HEADERS 8

DEVICE int is_extension(uint32_t protocol)
{
	return protocol == PROTOCOL_HOP_BY_HOP || protocol == PROTOCOL_ROUTING || protocol == PROTOCOL_FRAGMENT ||
	       protocol == PROTOCOL_AH || protocol == PROTOCOL_DEST_OPTIONS;
}

/* Where a chain of extension headers leads. */
struct chain {
	int whole;         /* it is neither broken nor too long; otherwise nothing else counts */
	uint32_t protocol; /* of the first header that is no extension, */
	uint32_t at;       /* which is there */
	int fragment;      /* the packet is one; beyond the first, at is in its payload */
	int routing0;      /* a type 0 routing header with segments left stands before it (RFC 5095) */
};

/* Follows the chain that begins at an offset with a header of type next, in an IPv6
 * packet that ends at end. */
DEVICE struct chain follow_chain(const struct packet *p, uint32_t next, uint32_t at, uint32_t end)
{
	struct chain c = {0, next, at, 0, 0};

	for (int headers = 0; headers <= MAX_EXTENSION_HEADERS; headers++) {
		if (!is_extension(c.protocol)) {
			c.whole = 1;
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
			if (half_at(p, c.at + 2) & 0xfff8) /* beyond the first: what follows is payload */
				c.whole = 1;
		}
		if (c.at + length > end)
			break;
		c.protocol = next;
		c.at += length;
		if (c.whole)
			break;
	}
	return c;
}

#endif
