/* walk < TABLE AND FLOWS > MATCHES: runs the lookups of policy.h on the host. Standard input is the
 * number of words, the words, and flows until the end; an IPv4 address is the first four of sixteen
 * bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "../policy.h"

struct input {
	unsigned char src[16], dst[16];
	uint32_t sport, dport, protocol, wide;
};

static uint64_t half(const unsigned char *b)
{
	uint64_t x = 0;
	for (int i = 0; i < 8; i++)
		x = x << 8 | b[i];
	return x;
}

int main(void)
{
	uint32_t n;
	if (fread(&n, sizeof n, 1, stdin) != 1)
		return 1;
	uint32_t *table = malloc((size_t)n * sizeof *table);
	if (!table || fread(table, sizeof *table, n, stdin) != n)
		return 1;
	struct input in;
	while (fread(&in, sizeof in, 1, stdin) == 1) {
		struct policy_flow f = {{half(in.src), half(in.src + 8)}, {half(in.dst), half(in.dst + 8)},
					in.sport, in.dport, in.protocol, (int)in.wide};
		struct policy_match m = policy_lookup(table, &f);
		fwrite(&m, sizeof m, 1, stdout);
	}
	return 0;
}
