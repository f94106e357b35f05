/* Bins: packets of a set that are encrypted or decrypted side by side with GCM, a subwarp each. Included by staging.h. */
#ifndef WARPROUTE_BIN_H
#define WARPROUTE_BIN_H

#include "esp_lane.h"

#define FRONT_SEGMENTS 3 /* of a packet, in front of ESP */

/* Packets that run side by side: more than half as long as the longest, so that no
 * subwarp idles for most of the time. */
struct bin {
	uint32_t lanes, packets, longest; /* longest in 16-byte segments */
};

DEVICE struct bin next_bin(const struct esp_lane *c, uint32_t left)
{
	uint32_t segments = left >> lane_id() & 1 ? c->segments : 0, longest = subwarp_max(segments, WARP_SIZE);
	uint32_t lanes = __ballot_sync(FULL_MASK, 2 * segments > longest);
	return (struct bin){lanes, __popc(lanes), longest};
}

/* Returns the lanes per packet of a bin: those with which it takes least time. In a round, each subwarp processes a packet, and a lane takes
 * a step for two of its blocks. To combine the sums of lanes, and to check the tag, takes half as long as a step. */
DEVICE uint32_t subwarp_size(const struct bin *b)
{
	uint32_t blocks = b->longest - min32(b->longest, FRONT_SEGMENTS), best = GCM_LANES, least = ~0u;

	PRAGMA_UNROLL_1
	for (uint32_t lanes = GCM_LANES; lanes > 0; lanes /= 2) {
		uint32_t rounds = (b->packets * lanes + WARP_SIZE - 1) / WARP_SIZE, halves = rounds * (2 * ((blocks + 2 * lanes - 1) / (2 * lanes)) + 1);
		if (halves < least) {
			least = halves;
			best = lanes;
		}
	}
	return best;
}

/* Returns the most lanes that share a packet of a set of some pending lanes' packets. If all of them form one bin, it is the size of its
 * subwarps, but not so small that a key of HMAC has more segments than the powers that they use. If fewer packets fit, the set keeps this number. */
DEVICE uint32_t most_lanes(const struct esp_lane *c, uint32_t pending)
{
	struct bin b = next_bin(c, pending);
	uint32_t size = subwarp_size(&b);

	return b.lanes != pending ? GCM_LANES : size > ESP_STATES / 2 ? size : ESP_STATES / 2;
}

#endif
