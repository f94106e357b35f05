/* walk BITS < IMAGE AND ADDRESSES > NEXT HOPS: the lookups of trie.h, on the host.
 * Standard input is the number of words, the words, and addresses until the end,
 * in network byte order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../trie.h"

_Static_assert(TRIE_ROOT == 1u << TRIE_ROOT_BITS, "root");
_Static_assert(TRIE_GROUP == 1u << TRIE_GROUP_BITS, "group");
_Static_assert(TRIE_NEXT_HOP_MASK == (1u << TRIE_NEXT_HOP_BITS) - 1, "next hop");
_Static_assert(TRIE_GROUPS % TRIE_GROUP == 0 && TRIE_GROUPS > TRIE_REUSES, "groups");

static uint32_t part(const unsigned char *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

int main(int argc, char **argv)
{
	int ipv6 = argc > 1 && !strcmp(argv[1], "128");
	uint32_t n;
	if (fread(&n, sizeof n, 1, stdin) != 1)
		return 1;
	uint32_t *image = malloc((size_t)n * sizeof *image);
	if (!image || fread(image, sizeof *image, n, stdin) != n)
		return 1;
	unsigned char b[16];
	while (fread(b, ipv6 ? 16 : 4, 1, stdin) == 1) {
		uint32_t addr[4] = {part(b), part(b + 4), part(b + 8), part(b + 12)};
		uint32_t word = ipv6 ? trie_walk6(image, addr) : trie_walk4(image, addr[0]);
		uint32_t hop = trie_next_hop(image, word);
		fwrite(&hop, sizeof hop, 1, stdout);
	}
	return 0;
}
