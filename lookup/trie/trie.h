/* The image of package trie, for devices: see layout.go for what it means.
 * A test holds the numbers against Go's, and the walks against its lookups.
 *
 * A lookup is right if the word at TRIE_REUSES is the same before and after it;
 * otherwise it has to be done again. One check serves as many lookups as lie
 * between the two loads. */
#ifndef WARPROUTE_TRIE_H
#define WARPROUTE_TRIE_H

#include <stdint.h>

#define TRIE_ROOT_BITS 24
#define TRIE_GROUP_BITS 8
#define TRIE_ROOT 0x1000000u    /* words of the root */
#define TRIE_GROUP 0x100u       /* words of a group */
#define TRIE_DEFAULT 0x1000000u /* the word of the default route */
#define TRIE_REUSES 0x1000001u  /* how many times groups began another life, or the default route */
#define TRIE_GROUPS 0x1000400u  /* where groups begin */
#define TRIE_MAX_WORDS 0x80000000u
#define TRIE_REFERENCE 0x80000000u
#define TRIE_NEXT_HOP_BITS 20
#define TRIE_NEXT_HOP_MASK 0xfffffu
#define TRIE_LENGTH_MASK 0xffu

#ifndef TRIE_DEVICE /* how a function for a device is declared */
#define TRIE_DEVICE static inline
#endif

#ifndef TRIE_LOAD /* a word, that somebody else may be storing */
#define TRIE_LOAD(p) (*(const volatile uint32_t *)(p))
#endif

/* The word at which a walk begins, for the first 32 bits of an address in host byte order. */
TRIE_DEVICE uint32_t trie_root(const uint32_t *image, uint32_t bits)
{
	return TRIE_LOAD(&image[bits >> (32 - TRIE_ROOT_BITS)]);
}

/* The word that follows one that is a reference. The next 8 bits of the address are
 * the lowest of bits, whatever is above them. */
TRIE_DEVICE uint32_t trie_next(const uint32_t *image, uint32_t word, uint32_t bits)
{
	return TRIE_LOAD(&image[(word & ~TRIE_REFERENCE) + bits % TRIE_GROUP]);
}

/* The word that an IPv4 address, in host byte order, ends at; 0 where only the
 * default route can be right. */
TRIE_DEVICE uint32_t trie_walk4(const uint32_t *image, uint32_t addr)
{
	uint32_t word = trie_root(image, addr);

	if (word & TRIE_REFERENCE)
		word = trie_next(image, word, addr);
	return word;
}

/* The same for an IPv6 address, given as its four 32-bit parts in host byte order. */
TRIE_DEVICE uint32_t trie_walk6(const uint32_t *image, const uint32_t addr[4])
{
	uint32_t word = trie_root(image, addr[0]);

	for (int bit = TRIE_ROOT_BITS; word & TRIE_REFERENCE && bit < 128; bit += TRIE_GROUP_BITS)
		word = trie_next(image, word, addr[bit / 32] >> (32 - TRIE_GROUP_BITS - bit % 32));
	return word;
}

/* The next hop of the word that a walk ended at; 0 for none. */
TRIE_DEVICE uint32_t trie_next_hop(const uint32_t *image, uint32_t word)
{
	if (!(word & TRIE_NEXT_HOP_MASK))
		word = TRIE_LOAD(&image[TRIE_DEFAULT]);
	return word & TRIE_NEXT_HOP_MASK;
}

#endif
