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
	uint32_t near;          /* how many words near_ports has; 0 where nobody made a copy */
	const uint64_t *near_ports; /* a copy of the first ports, taken after the snapshot that is used with it */
};

/* What a lookup begins with. */
struct snapshot {
	uint32_t reuses; /* below 2^31 */
	const uint32_t *ipv4, *ipv6;
};

/* Loads that have to follow others take a part of their address from what these
 * loaded: a bit that is always 0, of which compilers do not know it. So the
 * processor cannot begin them earlier, and needs no fence, which on a GPU takes
 * longer than the lookup. */
DEVICE struct snapshot take_snapshot(const struct tables *t)
{
	struct snapshot s;
	s.reuses = load32(t->reuses);
	s.ipv4 = (const uint32_t *)(uintptr_t)load64(t->ipv4 + (s.reuses >> 31));
	s.ipv6 = (const uint32_t *)(uintptr_t)load64(t->ipv6 + (s.reuses >> 31));
	return s;
}

/* Tells whether what was loaded since the snapshot is of one life. zero is 0, and
 * comes from what was loaded last. */
DEVICE int still_valid(const struct tables *t, struct snapshot s, uint32_t zero)
{
	return load32(t->reuses + zero) == s.reuses;
}

DEVICE uint64_t load_port(const struct tables *t, uint32_t number)
{
	if (!SELDOM(number >= t->near))
		return t->near_ports[number];
	uint64_t word = load64(&t->ports[number]);
	fence_loads();
	return word;
}

DEVICE int needs_repair(const struct tables *t, uint32_t port) { return t->repair[port / 32] >> port % 32 & 1; }

#endif
