/* lane_mask: compares the functions of lane_mask.h with a loop over all lanes, for sets of up to 16 lanes at either end, and others.
 * Prints the number of sets. */
#include <stdio.h>

#pragma GCC diagnostic ignored "-Wunused-function" /* of the intrinsics that warp.h declares, none is needed */
#include "../kernel/lane_mask.h"

/* Stores the lane of a set that has n others of it in front, or WARP_SIZE if the set has no more than n lanes, and returns the
 * others. */
static uint32_t first_lanes(uint32_t lanes, uint32_t n, uint32_t *at)
{
	uint32_t first = 0;

	for (*at = 0; *at < WARP_SIZE; ++*at) {
		if (!(lanes >> *at & 1))
			continue;
		if (n-- == 0)
			break;
		first |= 1u << *at;
	}
	return first;
}

static int check(uint32_t lanes)
{
	for (uint32_t n = 0; n <= WARP_SIZE + 1; n++) {
		uint32_t at, first = first_lanes(lanes, n, &at);

		if (nth_lane(lanes, n) != at || without_first(lanes, n) != (lanes & ~first)) {
			printf("lanes %#x, %u: lane %u, the rest is %#x\n", lanes, n, nth_lane(lanes, n), without_first(lanes, n));
			return 0;
		}
	}
	return 1;
}

int main(void)
{
	uint32_t sets = 0;

	for (uint32_t lane = 0, before = 0; lane <= WARP_SIZE; before |= lane < WARP_SIZE ? 1u << lane : 0, lane++)
		if (lanes_before(lane) != before) {
			printf("in front of lane %u: %#x\n", lane, lanes_before(lane));
			return 1;
		}
	for (uint32_t x = 0; x < 1 << 16; x++) {
		uint32_t all[] = {x, x << 16, x | x << 16, ~x, x * 0x9e3779b1};

		for (uint32_t i = 0; i < sizeof(all) / sizeof(*all); i++, sets++)
			if (!check(all[i]))
				return 1;
	}
	printf("%u\n", sets);
	return 0;
}
