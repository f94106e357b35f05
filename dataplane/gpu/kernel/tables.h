/* Forwarding tables in device memory, read while the host updates them. Included by decide.h and
 * mailbox.h. */
#ifndef WARPROUTE_TABLES_H
#define WARPROUTE_TABLES_H

#include "device.h"
#include "layout.h"

/* The device's copy of the forwarding tables. The host stores one word at a time, in the order of
 * fib.Follower and trie.Follower.
 *
 * *generation is the sequence number of a seqlock: a lookup is valid if it is the same before and
 * after. The host increments it between a store and a later one that a lookup must not combine:
 *
 *	the last reference to an ID is removed       generation + 1    the ID (trie node or array entry) is reused
 *	an array word changes                        generation + 1    a trie word or next hop refers to it
 *	the default route's word or another changes  generation + 1    the other changes
 *	the address of a trie image changes          generation + 1    the previous image's memory is filled
 *
 * All other stores of trie words leave it as it is. */
struct tables {
	const uint64_t *ipv4, *ipv6; /* where the address of the trie image is stored (trie.h); the host may replace the image */
	const uint64_t *next_hops;
	const uint32_t *groups; /* ECMP_BUCKETS adjacencies each */
	const uint64_t *adjacencies;
	const uint64_t *ports;   /* MAX_PORTS words, and as many tag words */
	const uint32_t *ingress; /* words by port: see fib.h */
	const uint32_t *generation;
	const uint32_t *partial_checksums; /* a bit per port: received packets may have partial L4 checksums; constant */
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
	uint32_t ingress[HOT_PORTS];
};

/* Start of a lookup: the generation and the trie images. */
struct snapshot {
	uint32_t generation; /* below 2^31 */
	const uint32_t *ipv4, *ipv6;
};

/* Loads the addresses of the trie images after the generation. Loads are ordered by an artificial data
 * dependency, because a fence takes longer than the lookup: the address of the later load includes a
 * bit of the earlier one that is always 0, which the compiler does not know. Here it is the
 * generation's upper bit.
 *
 * The PTX memory model does not promise this order. It relies on the hardware, which performs a load only when its
 * address is known, and on ptxas, which keeps the address computation; TestGPUChangesUnderLoad exercises it with
 * routes that change 100,000 times per second.
 *
 * The load of the default route's word (trie_next_hop) follows that of the final word by a branch, without such a bit.
 * It needs none: the next hop's ID depends on both words, and the generation is loaded after the next hop. In which
 * order the two are loaded does not matter, as the generation changes before and after the default route's word. */
DEVICE struct snapshot snapshot_at(const struct tables *t, uint32_t generation)
{
	struct snapshot s = {generation, 0, 0};
	s.ipv4 = (const uint32_t *)(uintptr_t)load64(t->ipv4 + (generation >> 31));
	s.ipv6 = (const uint32_t *)(uintptr_t)load64(t->ipv6 + (generation >> 31));
	return s;
}

DEVICE struct snapshot take_snapshot(const struct tables *t) { return snapshot_at(t, load32(t->generation)); }

/* Loads the generation after the table loads of a lookup. If it equals the snapshot's, the loaded words
 * are consistent. dependency is the artificial data dependency that orders the loads: the bitwise or of
 * bits of the loaded words that are always 0. */
DEVICE uint32_t load_generation(const struct tables *t, uint32_t dependency) { return load32(t->generation + dependency); }

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

/* Loads the tag word of a port: the VLAN tag of frames that leave by it, in memory order. The upper half is 0. */
DEVICE uint64_t load_tag(const struct tables *t, uint32_t number) { return load64(&t->ports[MAX_PORTS + number]); }

DEVICE int may_be_partial(const struct tables *t, uint32_t port) { return t->partial_checksums[port / 32] >> port % 32 & 1; }

#endif
