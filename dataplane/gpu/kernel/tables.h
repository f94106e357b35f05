/* Forwarding tables in device memory, read while the host updates them. Included by decide.h and
 * mailbox.h. */
#ifndef WARPROUTE_TABLES_H
#define WARPROUTE_TABLES_H

#include "device.h"
#include "layout.h"

/* The device's copy of the forwarding tables. The host stores one word at a time, in the order of
 * fib.Follower and trie.Follower.
 *
 * The protocol is a seqlock over *generation. The host increments it before it reuses the ID of a
 * freed trie node or array entry, and after it changes an array word, before a word that leads there
 * changes. A lookup is valid if the generation is the same before and after it. */
struct tables {
	const uint64_t *ipv4, *ipv6; /* where the address of the trie image is stored (trie.h); the host may replace the image */
	const uint64_t *next_hops;
	const uint32_t *groups; /* ECMP_BUCKETS adjacencies each */
	const uint64_t *adjacencies;
	const uint64_t *ports;
	const uint32_t *reverse_paths; /* by port */
	const uint32_t *generation;
	const uint32_t *repair;        /* a bit per port: received L4 checksums may be incomplete; constant */
	uint32_t seed;                 /* of flow hashes; constant */
	const struct hot_entries *hot; /* NULL: no cache */
};

CHECK_TABLES_LAYOUT;

/* Shared-memory cache of the hot entries: the first words of each array, loaded after the snapshot
 * they are used with. It is valid as long as the generation is the snapshot's. */
#ifndef HOT_ENTRIES
#define HOT_ENTRIES 32 /* next hops and adjacencies */
#endif
#define HOT_PORTS 32

struct hot_entries {
	uint64_t next_hops[HOT_ENTRIES], adjacencies[HOT_ENTRIES], ports[HOT_PORTS];
	uint32_t reverse_paths[HOT_PORTS];
};

/* Start of a lookup: the generation and the trie images. */
struct snapshot {
	uint32_t generation; /* below 2^31 */
	const uint32_t *ipv4, *ipv6;
};

/* Orders dependent loads without a fence, which takes longer than the lookup on a GPU: the address
 * includes a bit of the earlier load that is always 0, which the compiler does not know. */
DEVICE struct snapshot snapshot_at(const struct tables *t, uint32_t generation)
{
	struct snapshot s = {generation, 0, 0};
	s.ipv4 = (const uint32_t *)(uintptr_t)load64(t->ipv4 + (generation >> 31));
	s.ipv6 = (const uint32_t *)(uintptr_t)load64(t->ipv6 + (generation >> 31));
	return s;
}

DEVICE struct snapshot take_snapshot(const struct tables *t) { return snapshot_at(t, load32(t->generation)); }

/* Loads the generation behind the table loads that produced zero, which is 0. If it equals the
 * snapshot's, all words loaded in between are consistent. */
DEVICE uint32_t load_generation(const struct tables *t, uint32_t zero) { return load32(t->generation + zero); }

DEVICE uint64_t load_next_hop(const struct tables *t, uint32_t id)
{
	return likely(t->hot && id < HOT_ENTRIES) ? t->hot->next_hops[id] : load64(&t->next_hops[id]);
}

DEVICE uint64_t load_adjacency(const struct tables *t, uint32_t number)
{
	return likely(t->hot && number < HOT_ENTRIES) ? t->hot->adjacencies[number] : load64(&t->adjacencies[number]);
}

/* Loads a port word. It has no bit that is always 0, so a fence orders the load. */
DEVICE uint64_t load_port(const struct tables *t, uint32_t number)
{
	if (likely(t->hot && number < HOT_PORTS))
		return t->hot->ports[number];
	uint64_t word = load64(&t->ports[number]);
	fence_acq_rel_gpu();
	return word;
}

DEVICE int needs_repair(const struct tables *t, uint32_t port) { return t->repair[port / 32] >> port % 32 & 1; }

#endif
