/* The forwarding base as a device has it. */
#ifndef WARPROUTE_TABLES_H
#define WARPROUTE_TABLES_H

#include "device.h"

/* Words of the base change while packets are looked up, one at a time, in the order
 * in which the router changed them (fib.Follower, trie.Follower).
 *
 * *turns counts how often something that was freed began another life, be it a part of
 * a table or an entry of an array: before its words change; and how often a word of an
 * array changed: behind that, before what may lead to it does. What was looked up is
 * right if it is the same before and after. */
struct tables {
	const uint64_t *ipv4, *ipv6; /* the address of the image (trie.h): another may take its place */
	const uint64_t *next_hops;
	const uint32_t *groups; /* GROUP_BUCKETS adjacencies each */
	const uint64_t *adjacencies;
	const uint64_t *ports;
	const uint32_t *reverse_paths; /* by port */
	const uint32_t *turns;
	const uint32_t *repair; /* a bit for each port: L4 checksums of what it receives may be unfinished; never changes */
	uint32_t seed;          /* of flow hashes; never changes */
	const struct nearby *near; /* NULL where nobody made a copy */
};

/* A copy of the first words of each array, made after the snapshot that is used with
 * it. As long as no turn was counted since, it has all that a table can lead to. */
#ifndef NEARBY
#define NEARBY 32 /* next hops, and adjacencies */
#endif
#define NEAR_PORTS 32

struct nearby {
	uint64_t next_hops[NEARBY], adjacencies[NEARBY], ports[NEAR_PORTS];
	uint32_t reverse_paths[NEAR_PORTS];
};

/* What a lookup begins with. */
struct snapshot {
	uint32_t turns; /* below 2^31 */
	const uint32_t *ipv4, *ipv6;
};

/* Loads that have to follow others take a part of their address from what these
 * loaded: a bit that is always 0, of which compilers do not know it. So the
 * processor cannot begin them earlier, and needs no fence, which on a GPU takes
 * longer than the lookup. */
DEVICE struct snapshot snapshot_at(const struct tables *t, uint32_t turns)
{
	struct snapshot s = {turns, 0, 0};
	s.ipv4 = (const uint32_t *)(uintptr_t)load64(t->ipv4 + (turns >> 31));
	s.ipv6 = (const uint32_t *)(uintptr_t)load64(t->ipv6 + (turns >> 31));
	return s;
}

DEVICE struct snapshot take_snapshot(const struct tables *t) { return snapshot_at(t, load32(t->turns)); }

/* The turns by now; where they are the snapshot's, what was loaded in between is of one
 * life. zero is 0, and comes from what was loaded last. */
DEVICE uint32_t turns_now(const struct tables *t, uint32_t zero) { return load32(t->turns + zero); }

DEVICE uint64_t load_next_hop(const struct tables *t, uint32_t id)
{
	return MOSTLY(t->near && id < NEARBY) ? t->near->next_hops[id] : load64(&t->next_hops[id]);
}

DEVICE uint64_t load_adjacency(const struct tables *t, uint32_t number)
{
	return MOSTLY(t->near && number < NEARBY) ? t->near->adjacencies[number] : load64(&t->adjacencies[number]);
}

/* No bit of a port's word is always 0, so that it takes a fence to have it come first. */
DEVICE uint64_t load_port(const struct tables *t, uint32_t number)
{
	if (MOSTLY(t->near && number < NEAR_PORTS))
		return t->near->ports[number];
	uint64_t word = load64(&t->ports[number]);
	fence_loads();
	return word;
}

DEVICE int needs_repair(const struct tables *t, uint32_t port) { return t->repair[port / 32] >> port % 32 & 1; }

#endif
