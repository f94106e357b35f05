/* The forwarding base as a device has it. */
#ifndef WARPROUTE_TABLES_H
#define WARPROUTE_TABLES_H

#include "device.h"

/* Words of the base change while packets are looked up, one at a time, in the order
 * in which the router changed them (fib.Follower, trie.Follower).
 *
 * *reuses counts how often something that was freed, be it of a table or an entry of
 * an array, began another life. What was looked up is right if it is the same before
 * and after. */
struct tables {
	const uint64_t *ipv4, *ipv6; /* the address of the image (trie.h): another may take its place */
	const uint64_t *next_hops;
	const uint32_t *groups; /* GROUP_BUCKETS adjacencies each */
	const uint64_t *adjacencies;
	const uint64_t *ports;
	const uint32_t *reuses;
	const uint32_t *repair; /* a bit for each port: L4 checksums of what it receives may be unfinished; never changes */
	uint32_t seed;          /* of flow hashes; never changes */
};

DEVICE const uint32_t *load_image(const uint64_t *at) { return (const uint32_t *)(uintptr_t)load64(at); }

DEVICE int needs_repair(const struct tables *t, uint32_t port) { return t->repair[port / 32] >> port % 32 & 1; }

#endif
