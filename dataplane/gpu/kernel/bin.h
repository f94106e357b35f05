/* Bins: packets of a set that are encrypted or decrypted side by side with GCM, a subwarp each. Included by staging.h. */
#ifndef WARPROUTE_BIN_H
#define WARPROUTE_BIN_H

#include "esp_lane.h"

/* Packets that run side by side: at least half as long as the longest, so that no
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

/* Returns the lanes per packet of a bin: at least four segments per lane, unless lanes would have no
 * packet. */
DEVICE uint32_t subwarp_size(const struct bin *b)
{
	uint32_t lanes = WARP_SIZE;

	PRAGMA_UNROLL_1
	while (lanes > 1 && b->longest < 4 * lanes && WARP_SIZE / lanes < b->packets)
		lanes /= 2;
	return lanes;
}

/* Returns the most lanes that share a packet of a set of some pending lanes' packets: a key needs as many powers. If all of them form one bin,
 * it is the size of its subwarps, but not less than the states of the longest key with HMAC take. */
DEVICE uint32_t most_lanes(const struct esp_lane *c, uint32_t pending)
{
	struct bin b = next_bin(c, pending);
	uint32_t size = subwarp_size(&b);

	return b.lanes != pending ? WARP_SIZE : size > ESP_STATES ? size : ESP_STATES;
}

#endif
