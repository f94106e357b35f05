/* Three kernels for a chunk whose frames' headers were copied to device memory: look up, rewrite, gather. A
 * thread processes a packet. Included by ladder.cu and its fake driver. */
#ifndef WARPROUTE_LADDER_COPIES_H
#define WARPROUTE_LADDER_COPIES_H

#include "../../dataplane/gpu/kernel/decide.h"
#include "layout.h"

/* Decision of the first kernel for the second and third. */
struct route {
	struct result result;
	uint64_t adjacency, port; /* words with the link addresses to write */
	uint32_t ipv4, unused;
};

CHECK_ROUTE_LAYOUT;

/* Buffers of a chunk in device memory. */
struct copies {
	struct tables tables;
	const struct frame *frames;
	uint32_t *headers;      /* HEADER_BYTES each, from 2 before the Ethernet header on */
	struct route *routes;
	struct result *results; /* to be copied to the host, followed by */
	uint32_t *rewritten;    /* the first REWRITTEN_WORDS of each header */
	uint32_t n, unused;
};

CHECK_COPIES_LAYOUT;

/* Parses packet i and looks up its route. The header copy must hold the whole packet. */
DEVICE void copies_look_up(const struct copies *c, uint32_t i)
{
	uint32_t *header = c->headers + i * (HEADER_BYTES / 4);
	struct candidate d = look_up(&c->tables, take_snapshot(&c->tables), c->frames[i], (uint8_t *)header + 2, header, HEADER_BYTES);

	c->routes[i] = (struct route){d.result, d.adjacency, d.port, (uint32_t)d.ipv4, 0};
}

/* Writes the link addresses and the TTL of packet i to its header copy. */
DEVICE void copies_rewrite(const struct copies *c, uint32_t i)
{
	uint32_t *at = c->headers + i * (HEADER_BYTES / 4), header[REWRITTEN_WORDS];
	struct route r = c->routes[i];
	struct candidate d = {r.result, {header, HEADER_BYTES, 0, 0, 0, 0, 0}, (int)r.ipv4, 0, r.adjacency, r.port, 0, 0, 0};

	if (r.result.verdict >> 12 != ACTION_FORWARD)
		return;
	for (uint32_t k = 0; k < REWRITTEN_WORDS; k++)
		header[k] = at[k];
	rewrite(&d, header, at);
}

/* Gathers the result and the rewritten words of packet i. */
DEVICE void copies_gather(const struct copies *c, uint32_t i)
{
	c->results[i] = c->routes[i].result;
	for (uint32_t k = 0; k < REWRITTEN_WORDS; k++)
		c->rewritten[i * REWRITTEN_WORDS + k] = c->headers[i * (HEADER_BYTES / 4) + k];
}

#endif
