/* A limit: frames are read and written back where they lie, in the host's memory, by lanes
 * side by side, in the requests that PCIe has; and nothing else is done. */
#ifndef WARPROUTE_REWRITE_H
#define WARPROUTE_REWRITE_H

#define THREADS 256
#define LINE 16
#define REQUEST_LINES 8
#define LINES 128 /* of a frame at most: 2048 bytes */

struct shape {
	uint8_t *memory;
	const uint32_t *frames; /* where they begin, multiples of 2048, */
	uint32_t n;             /* and how many, */
	uint32_t times;         /* for so many times */
	uint32_t at, read, back; /* bytes, multiples of 32: from where in a frame, and how many are read and written */
	uint32_t lanes;          /* for each frame: a power of two up to 32 */
};

/* What a thread does, of so many blocks. */
DEVICE void rewrite_by(struct shape s, uint32_t thread, uint32_t block, uint32_t blocks)
{
	uint32_t lane = thread % s.lanes, ahead = s.at / LINE % REQUEST_LINES, groups = blocks * THREADS / s.lanes;

	ROLL
	for (uint32_t time = 0; time < s.times; time++)
		ROLL
		for (uint32_t i = (block * THREADS + thread) / s.lanes; i < s.n; i += groups) {
			uint8_t *from = s.memory + s.frames[i] + s.at;
			struct words4 v[LINES / WARP + 1];
			UNROLL
			for (uint32_t k = 0; k < LINES / WARP + 1; k++) {
				uint32_t line = k * s.lanes + lane - ahead;
				if (line < s.read / LINE)
					v[k] = host_load128(from + line * LINE);
			}
			UNROLL
			for (uint32_t k = 0; k < LINES / WARP + 1; k++) {
				uint32_t line = k * s.lanes + lane - ahead;
				v[k].w[0]++;
				if (line < s.back / LINE)
					host_store128(from + line * LINE, v[k]);
			}
		}
}

#endif
