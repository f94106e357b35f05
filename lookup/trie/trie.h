/* Lookups in a trie image (layout.go) for devices. Included by the kernels and by lookup.cu.
 *
 * A lookup is valid if a generation is the same before and after it (a seqlock), the word at TRIE_GENERATION or, in the GPU
 * engine, that of all tables; otherwise the caller retries. One check covers all lookups between the two loads. */
#ifndef WARPROUTE_TRIE_H
#define WARPROUTE_TRIE_H

#include <stdint.h>

#include "layout.h"

#ifndef TRIE_DEVICE /* declares a device function */
#define TRIE_DEVICE static inline
#endif

#ifndef TRIE_LOAD /* loads a word that another thread may store */
#define TRIE_LOAD(p) (*(const volatile uint32_t *)(p))
#endif

/* Returns the root word for the first 32 bits of an address in host byte order. */
TRIE_DEVICE uint32_t trie_root(const uint32_t *image, uint32_t bits)
{
	return TRIE_LOAD(&image[bits >> (32 - TRIE_ROOT_BITS)]);
}

/* Returns the word at which lookups in a VRF start. The address bits before a reference in it are none. */
TRIE_DEVICE uint32_t trie_vrf(const uint32_t *image, uint32_t vrf) { return TRIE_LOAD(&image[TRIE_VRFS + vrf]); }

/* Returns the word that follows a reference. The next 8 address bits are the lowest of bits; higher
 * bits are ignored. */
TRIE_DEVICE uint32_t trie_next(const uint32_t *image, uint32_t word, uint32_t bits)
{
	return TRIE_LOAD(&image[(word & ~TRIE_REFERENCE) + bits % TRIE_NODE]);
}

/* Returns the next hop of a final word outside of VRFs; 0 for none. In a VRF, it is the word's lowest bits. The
 * generation changes before and after the default route's word, so the two loads need no order between them. */
TRIE_DEVICE uint32_t trie_next_hop(const uint32_t *image, uint32_t word)
{
	if (!(word & TRIE_NEXT_HOP_MASK))
		word = TRIE_LOAD(&image[TRIE_DEFAULT]);
	return word & TRIE_NEXT_HOP_MASK;
}

#endif
