/* Lookups in a policy table (layout.go) for devices. A table is constant.
 *
 * Addresses are keys: their first bit is the highest of hi, and an IPv4 address is the upper half
 * of hi. */
#ifndef WARPROUTE_POLICY_H
#define WARPROUTE_POLICY_H

#include <stdint.h>

#include "layout.h"

#ifndef POLICY_DEVICE /* declares a device function */
#define POLICY_DEVICE static inline
#endif

#ifndef POLICY_LOAD /* loads a word */
#define POLICY_LOAD(p) (*(p))
#endif

struct policy_key {
	uint64_t hi, lo;
};

struct policy_flow {
	struct policy_key src, dst;
	uint32_t sport, dport; /* or POLICY_NO_PORT, or both POLICY_HIDDEN_PORT */
	uint32_t protocol;
	int wide;              /* IPv6 */
};

struct policy_match {
	int32_t policy;   /* -1 for none */
	uint32_t verdict; /* 0 (discard) for none */
};

POLICY_DEVICE uint32_t policy_action(uint32_t verdict) { return verdict & 3; }
POLICY_DEVICE uint32_t policy_target(uint32_t verdict) { return verdict >> 2; }

/* Returns stride bits of a key from position on. */
POLICY_DEVICE uint32_t policy_slot(struct policy_key k, uint32_t position, uint32_t stride)
{
	uint64_t x = position < 64 ? k.hi << position | k.lo >> 1 >> (63 - position) : k.lo << (position - 64);

	return (uint32_t)(x >> (64 - stride));
}

/* Returns a trie's record for a key, 0 for none: the longest prefix that covers it, or one below. */
POLICY_DEVICE uint32_t policy_walk(const uint32_t *table, uint32_t trie, struct policy_key k)
{
	while (trie & POLICY_NODE) {
		uint32_t slot = policy_slot(k, trie >> POLICY_POSITION_AT & 127, (trie >> POLICY_STRIDE_AT & 15) + 1);

		trie = POLICY_LOAD(&table[(trie & POLICY_SLOTS_MASK) * POLICY_SLOTS_UNIT + slot]);
	}
	return trie;
}

/* Returns nonzero if the first n bits of two halves of keys differ. */
POLICY_DEVICE uint64_t policy_differ(uint64_t x, uint64_t y, uint32_t n)
{
	return n ? (x ^ y) >> (64 - n) : 0;
}

/* Returns the record of the longest prefix that covers a key, 0 for none. */
POLICY_DEVICE uint32_t policy_find(const uint32_t *table, uint32_t trie, struct policy_key k, int wide)
{
	uint32_t at = policy_walk(table, trie, k);

	while (at) {
		uint32_t first = POLICY_LOAD(&table[at]), bits = first >> POLICY_BITS_AT;
		const uint32_t *address = &table[at + POLICY_ADDRESS];
		uint64_t hi = (uint64_t)POLICY_LOAD(&address[0]) << 32, lo = 0;

		if (wide) {
			hi |= POLICY_LOAD(&address[1]);
			lo = (uint64_t)POLICY_LOAD(&address[2]) << 32 | POLICY_LOAD(&address[3]);
		}
		if (!(policy_differ(hi, k.hi, bits < 64 ? bits : 64) | policy_differ(lo, k.lo, bits < 64 ? 0 : bits - 64)))
			break;
		at = first & POLICY_PARENT_MASK;
	}
	return at;
}

POLICY_DEVICE int policy_in_range(uint32_t port, uint32_t ports)
{
	return (ports & 0xffff) <= port && port <= ports >> 16;
}

/* Returns whether a flow matches protocol and ports of the policy at p. Hidden ports match protect
 * and discard policies. */
POLICY_DEVICE int policy_matches(const struct policy_flow *f, const uint32_t *p)
{
	uint32_t what = POLICY_LOAD(&p[1]), protocol = what & 0xff;

	if (f->sport == POLICY_HIDDEN_PORT && policy_action(what >> POLICY_VERDICT_AT) != POLICY_BYPASS)
		return !protocol || protocol == f->protocol || f->protocol == POLICY_HIDDEN_PROTOCOL;
	return (!protocol || protocol == f->protocol) &&
	       (what & POLICY_ANY_SRC_PORT || policy_in_range(f->sport, POLICY_LOAD(&p[2]))) &&
	       (what & POLICY_ANY_DST_PORT || policy_in_range(f->dport, POLICY_LOAD(&p[3])));
}

/* Searches the list at p while its numbers are below that of the policy found. */
POLICY_DEVICE struct policy_match policy_list(const struct policy_flow *f, const uint32_t *p, struct policy_match found)
{
	for (;; p += POLICY_WORDS) {
		uint32_t first = POLICY_LOAD(p), number = first & ~POLICY_LAST;

		if (number >= (uint32_t)found.policy)
			return found;
		if (policy_matches(f, p)) {
			struct policy_match m = {(int32_t)number, POLICY_LOAD(&p[1]) >> POLICY_VERDICT_AT};
			return m;
		}
		if (first & POLICY_LAST)
			return found;
	}
}

/* Returns the first policy that matches a flow. */
POLICY_DEVICE struct policy_match policy_lookup(const uint32_t *table, const struct policy_flow *f)
{
	struct policy_match found = {-1, 0};
	uint32_t lists = POLICY_ADDRESS + (f->wide ? 4 : 1); /* where a record continues behind its address */
	uint32_t root = POLICY_LOAD(&table[f->wide ? POLICY_IPV6_ROOT : POLICY_IPV4_ROOT]);
	uint32_t d = policy_find(table, root, f->dst, f->wide);

	for (; d && POLICY_LOAD(&table[d + POLICY_LOWEST]) < (uint32_t)found.policy; d = POLICY_LOAD(&table[d + POLICY_MORE])) {
		uint32_t s = policy_find(table, POLICY_LOAD(&table[d + lists]), f->src, f->wide);

		for (; s && POLICY_LOAD(&table[s + POLICY_LOWEST]) < (uint32_t)found.policy; s = POLICY_LOAD(&table[s + POLICY_MORE]))
			found = policy_list(f, &table[s + lists], found);
	}
	return found;
}

#endif
