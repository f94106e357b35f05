/* walk BITS < IMAGE AND ADDRESSES > NEXT HOPS: runs the lookups of trie.h on the host. Standard
 * input is the number of words, the words, and addresses in network byte order until the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../trie.h"

/* Returns the final word of an IPv4 address in host byte order; 0 if only the default route can
 * match. */
static uint32_t walk4(const uint32_t *image, uint32_t addr)
{
	uint32_t word = trie_root(image, addr);

	if (word & TRIE_REFERENCE)
		word = trie_next(image, word, addr);
	return word;
}

/* Returns the final word of an IPv6 address, given as four 32-bit parts in host byte order. */
static uint32_t walk6(const uint32_t *image, const uint32_t addr[4])
{
	uint32_t word = trie_root(image, addr[0]);

	for (int bit = TRIE_ROOT_BITS; word & TRIE_REFERENCE && bit < 128; bit += TRIE_NODE_BITS)
		word = trie_next(image, word, addr[bit / 32] >> (32 - TRIE_NODE_BITS - bit % 32));
	return word;
}

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
		uint32_t word = ipv6 ? walk6(image, addr) : walk4(image, addr[0]);
		uint32_t hop = trie_next_hop(image, word);
		fwrite(&hop, sizeof hop, 1, stdout);
	}
	return 0;
}
