/* Sets of lanes, a bit per lane. Included by esp_lane.h. */
#ifndef WARPROUTE_LANE_MASK_H
#define WARPROUTE_LANE_MASK_H

#include "warp.h"

/* Returns all lanes in front of one. In front of WARP_SIZE are all lanes of a warp. */
DEVICE uint32_t lanes_before(uint32_t lane) { return lane < WARP_SIZE ? (1u << lane) - 1 : FULL_MASK; }

/* Returns the lane of a set that has n others of it in front, or WARP_SIZE if the set has no more than n lanes. */
DEVICE uint32_t nth_lane(uint32_t lanes, uint32_t n)
{
	uint32_t lane = 0;

	if (n >= (uint32_t)__popc(lanes))
		return WARP_SIZE;
	PRAGMA_UNROLL
	for (uint32_t width = WARP_SIZE / 2; width; width /= 2) {
		uint32_t lower = (uint32_t)__popc(lanes >> lane & lanes_before(width));
		if (n >= lower) {
			n -= lower;
			lane += width;
		}
	}
	return lane;
}

/* Returns a set without its first n lanes. */
DEVICE uint32_t without_first(uint32_t lanes, uint32_t n) { return lanes & ~lanes_before(nth_lane(lanes, n)); }

#endif
