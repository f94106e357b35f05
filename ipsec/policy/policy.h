/* The image of package policy, for devices: see layout.go for what it means.
 * A test holds the numbers against Go's, and the lookups against its lookups.
 *
 * An image does not change. Addresses are keys: their first bit is the uppermost of
 * hi, and an IPv4 address is the upper half of hi. */
#ifndef WARPROUTE_POLICY_H
#define WARPROUTE_POLICY_H

#include <stdint.h>

#define POLICY_IPV4_ROOT 0
#define POLICY_IPV6_ROOT 1
#define POLICY_NODE 0x80000000u
#define POLICY_POSITION_AT 24
#define POLICY_STRIDE_AT 20
#define POLICY_SLOTS_MASK 0xfffffu
#define POLICY_SLOTS_UNIT 8
#define POLICY_BITS_AT 24
#define POLICY_PARENT_MASK 0xffffffu
#define POLICY_MORE 1    /* words of a record */
#define POLICY_LOWEST 2
#define POLICY_ADDRESS 3
#define POLICY_WORDS 4
#define POLICY_LAST 0x80000000u
#define POLICY_ANY_SRC_PORT 0x100u
#define POLICY_ANY_DST_PORT 0x200u
#define POLICY_VERDICT_AT 10

#define POLICY_NO_PORT 0x10000u     /* the port of a flow that has none */
#define POLICY_HIDDEN_PORT 0x10001u /* the ports of one that does not show them */
#define POLICY_HIDDEN_PROTOCOL 44   /* the protocol of one that shows neither */
#define POLICY_DISCARD 0
#define POLICY_BYPASS 1
#define POLICY_PROTECT 2

#ifndef POLICY_DEVICE /* how a function for a device is declared */
#define POLICY_DEVICE static inline
#endif

#ifndef POLICY_LOAD /* a word */
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
	uint32_t verdict; /* 0 for none, which is to discard */
};

POLICY_DEVICE uint32_t policy_action(uint32_t verdict) { return verdict & 3; }
POLICY_DEVICE uint32_t policy_target(uint32_t verdict) { return verdict >> 2; }

/* The number that stride bits of a key make, from the one at position. */
POLICY_DEVICE uint32_t policy_slot(struct policy_key k, uint32_t position, uint32_t stride)
{
	uint64_t x = position < 64 ? k.hi << position | k.lo >> 1 >> (63 - position) : k.lo << (position - 64);

	return (uint32_t)(x >> (64 - stride));
}

/* The record that a trie has for a key, 0 for none: the longest prefix that
 * covers it, or one below that. */
POLICY_DEVICE uint32_t policy_walk(const uint32_t *image, uint32_t trie, struct policy_key k)
{
	while (trie & POLICY_NODE) {
		uint32_t slot = policy_slot(k, trie >> POLICY_POSITION_AT & 127, (trie >> POLICY_STRIDE_AT & 15) + 1);

		trie = POLICY_LOAD(&image[(trie & POLICY_SLOTS_MASK) * POLICY_SLOTS_UNIT + slot]);
	}
	return trie;
}

/* The bits in which two halves of keys differ, of the first n. */
POLICY_DEVICE uint64_t policy_differ(uint64_t x, uint64_t y, uint32_t n)
{
	return n ? (x ^ y) >> (64 - n) : 0;
}

/* The record of a trie with the longest prefix that covers a key, 0 for none. */
POLICY_DEVICE uint32_t policy_find(const uint32_t *image, uint32_t trie, struct policy_key k, int wide)
{
	uint32_t at = policy_walk(image, trie, k);

	while (at) {
		uint32_t first = POLICY_LOAD(&image[at]), bits = first >> POLICY_BITS_AT;
		const uint32_t *address = &image[at + POLICY_ADDRESS];
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

/* Whether a flow is of the protocol and ports of the policy at p. Hidden ones match what
 * protects and what discards. */
POLICY_DEVICE int policy_matches(const struct policy_flow *f, const uint32_t *p)
{
	uint32_t what = POLICY_LOAD(&p[1]), protocol = what & 0xff;

	if (f->sport == POLICY_HIDDEN_PORT && policy_action(what >> POLICY_VERDICT_AT) != POLICY_BYPASS)
		return !protocol || protocol == f->protocol || f->protocol == POLICY_HIDDEN_PROTOCOL;
	return (!protocol || protocol == f->protocol) &&
	       (what & POLICY_ANY_SRC_PORT || policy_in_range(f->sport, POLICY_LOAD(&p[2]))) &&
	       (what & POLICY_ANY_DST_PORT || policy_in_range(f->dport, POLICY_LOAD(&p[3])));
}

/* Goes through the list at p, while its numbers are lower than that of the policy found. */
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

/* The first policy that matches a flow. */
POLICY_DEVICE struct policy_match policy_lookup(const uint32_t *image, const struct policy_flow *f)
{
	struct policy_match found = {-1, 0};
	uint32_t lists = POLICY_ADDRESS + (f->wide ? 4 : 1); /* where a record goes on behind its address */
	uint32_t root = POLICY_LOAD(&image[f->wide ? POLICY_IPV6_ROOT : POLICY_IPV4_ROOT]);
	uint32_t d = policy_find(image, root, f->dst, f->wide);

	for (; d && POLICY_LOAD(&image[d + POLICY_LOWEST]) < (uint32_t)found.policy; d = POLICY_LOAD(&image[d + POLICY_MORE])) {
		uint32_t s = policy_find(image, POLICY_LOAD(&image[d + lists]), f->src, f->wide);

		for (; s && POLICY_LOAD(&image[s + POLICY_LOWEST]) < (uint32_t)found.policy; s = POLICY_LOAD(&image[s + POLICY_MORE]))
			found = policy_list(f, &image[s + lists], found);
	}
	return found;
}

#endif
