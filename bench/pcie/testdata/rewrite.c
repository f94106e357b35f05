/* rewrite AT READ BACK LANES: runs the kernel's code on the host, one thread after another. Checks
 * that every line to write back was written once per round, and no other. */
#define WARP_SIZE 32
#include "../../../dataplane/gpu/kernel/device.h"

#include <stdio.h>
#include <stdlib.h>

struct words4 {
	uint32_t w[4];
};
static uint64_t loads;
static struct words4 host_load128(const void *p)
{
	loads++;
	return *(const struct words4 *)p;
}
static void host_store128(void *p, struct words4 v) { *(struct words4 *)p = v; }

#include "../rewrite.h"

enum { FRAMES = 100, FRAME = 2048, BLOCKS = 3, TIMES = 2 };

static uint32_t memory[FRAMES][FRAME / 4] __attribute__((aligned(128)));

int main(int argc, char **argv)
{
	static uint32_t frames[FRAMES];
	struct shape s = {(uint8_t *)memory, frames, FRAMES, TIMES, 0, 0, 0, 0};

	if (argc != 5)
		return 2;
	s.at = (uint32_t)atoi(argv[1]), s.read = (uint32_t)atoi(argv[2]), s.back = (uint32_t)atoi(argv[3]), s.lanes = (uint32_t)atoi(argv[4]);
	for (uint32_t i = 0; i < FRAMES; i++)
		frames[i] = (i * 37 + 5) % FRAMES * FRAME;
	for (uint32_t block = 0; block < BLOCKS; block++)
		for (uint32_t thread = 0; thread < THREADS; thread++)
			rewrite_frames(s, thread, block, BLOCKS);
	for (uint32_t i = 0; i < FRAMES; i++)
		for (uint32_t byte = 0; byte < FRAME; byte += LINE) {
			uint32_t want = byte >= s.at && byte < s.at + s.back ? TIMES : 0;
			if (memory[i][byte / 4] != want) {
				printf("frame %u, byte %u: written %u times, want %u\n", i, byte, memory[i][byte / 4], want);
				return 1;
			}
		}
	if (loads != (uint64_t)FRAMES * TIMES * s.read / LINE) {
		printf("%lu lines were read of %u bytes\n", (unsigned long)loads, s.read);
		return 1;
	}
	return 0;
}
