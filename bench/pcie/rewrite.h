/* PCIe limit: frames in host memory are read and written back in place, by adjacent lanes in whole
 * PCIe requests, and not processed. Included by rewrite.cu and its host test. */
#ifndef WARPROUTE_REWRITE_H
#define WARPROUTE_REWRITE_H

#include "layout.h"

struct shape {
	uint8_t *memory;
	const uint32_t *frames;  /* offsets, multiples of 2,048 */
	uint32_t n;              /* frames */
	uint32_t times;          /* rounds over all frames */
	uint32_t at, read, back; /* bytes, multiples of 32: offset in a frame, length read, length written */
	uint32_t lanes;          /* lanes per frame, a power of two up to 32 */
};

CHECK_SHAPE_LAYOUT;

/* Rewrites the frames of one thread. */
DEVICE void rewrite_frames(struct shape s, uint32_t thread, uint32_t block, uint32_t blocks)
{
	uint32_t lane = thread % s.lanes, ahead = s.at / LINE % REQUEST_LINES, groups = blocks * THREADS / s.lanes;

	PRAGMA_UNROLL_1
	for (uint32_t time = 0; time < s.times; time++)
		PRAGMA_UNROLL_1
		for (uint32_t i = (block * THREADS + thread) / s.lanes; i < s.n; i += groups) {
			uint8_t *from = s.memory + s.frames[i] + s.at;
			struct words4 v[LINES / WARP_SIZE + 1];
			PRAGMA_UNROLL
			for (uint32_t k = 0; k < LINES / WARP_SIZE + 1; k++) {
				uint32_t line = k * s.lanes + lane - ahead;
				if (line < s.read / LINE)
					v[k] = host_load128(from + line * LINE);
			}
			PRAGMA_UNROLL
			for (uint32_t k = 0; k < LINES / WARP_SIZE + 1; k++) {
				uint32_t line = k * s.lanes + lane - ahead;
				v[k].w[0]++;
				if (line < s.back / LINE)
					host_store128(from + line * LINE, v[k]);
			}
		}
}

#endif
