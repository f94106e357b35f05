/* Processing of a chunk in place, by one kernel: reads the headers of frames in host memory, decides, and
 * writes the changed bytes back. A warp processes 32 packets, in steps that end at __syncwarp. Included by
 * ladder.cu and its fake driver. */
#ifndef WARPROUTE_LADDER_FUSED_H
#define WARPROUTE_LADDER_FUSED_H

#include "../../dataplane/gpu/kernel/decide.h"
#include "layout.h"

struct fused {
	struct tables tables;
	uint8_t *umem;                  /* host memory, as are: */
	const struct frame *frames;     /* of the chunk, at addresses 2 above a multiple of 16 */
	struct result *results;
	uint32_t *done;                 /* receives seq after all results */
	uint32_t *finished;             /* blocks that are done, in device memory; 0 before and after */
	uint32_t n, seq;
};

CHECK_FUSED_LAYOUT;

#define SEGMENTS (HEADER_BYTES / 16)

/* Per-warp scratch in shared memory. Padded rows: lanes that access one row each use all banks. */
struct fused_scratch {
	struct frame frames[WARP_SIZE];
	uint32_t headers[WARP_SIZE][HEADER_BYTES / 4 + 1];
	uint32_t rewritten[WARP_SIZE][REWRITTEN_WORDS + 1];
	uint32_t forward[WARP_SIZE];
};

/* Reads the lane's descriptor. */
DEVICE uint64_t fused_load_frame(const struct fused *f, uint32_t first, uint32_t lane)
{
	return first + lane < f->n ? host_load64((const uint64_t *)&f->frames[first + lane]) : 0;
}

/* Step 1: stores the lane's descriptor. All frames come from port 0. */
DEVICE void fused_store_frame(struct fused_scratch *scratch, uint32_t lane, uint64_t v)
{
	scratch->frames[lane] = (struct frame){(uint32_t)v, (uint16_t)(v >> 32), 0};
}

/* Step 2: reads a 16-byte segment of each of four headers. Four lanes per frame make one 64-byte request to
 * host memory. */
DEVICE void fused_read_headers(const struct fused *f, struct fused_scratch *scratch, uint32_t first, uint32_t lane)
{
	struct words4 segment[SEGMENTS];

	PRAGMA_UNROLL
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		uint32_t from = i * (WARP_SIZE / SEGMENTS) + lane / SEGMENTS;
		if (first + from < f->n)
			segment[i] = host_load128(f->umem + scratch->frames[from].addr - 2 + lane % SEGMENTS * 16);
	}
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < SEGMENTS; i++) {
		uint32_t from = i * (WARP_SIZE / SEGMENTS) + lane / SEGMENTS;
		if (first + from < f->n)
			for (uint32_t k = 0; k < 4; k++)
				scratch->headers[from][lane % SEGMENTS * 4 + k] = segment[i].w[k];
	}
}

/* Step 3: decides on the lane's packet, and writes its result. */
DEVICE void fused_decide(const struct fused *f, struct fused_scratch *scratch, struct snapshot s, uint32_t first, uint32_t lane)
{
	struct frame in = scratch->frames[lane];

	scratch->forward[lane] = 0;
	if (first + lane >= f->n)
		return;
	struct decision d = decide(&f->tables, s, in, f->umem + in.addr, scratch->headers[lane], scratch->rewritten[lane]);
	scratch->forward[lane] = d.result.verdict >> 12 == ACTION_FORWARD;
	host_store64((uint64_t *)&f->results[first + lane],
		     d.result.addr | (uint64_t)d.result.len << 32 | (uint64_t)d.result.verdict << 48);
}

/* Step 4: writes the rewritten bytes of two frames back, two lanes per frame. */
DEVICE void fused_write_headers(const struct fused *f, const struct fused_scratch *scratch, uint32_t lane)
{
	PRAGMA_UNROLL
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t from = i * (WARP_SIZE / 2) + lane / 2;
		struct words4 v;
		if (!scratch->forward[from])
			continue;
		for (uint32_t k = 0; k < 4; k++)
			v.w[k] = scratch->rewritten[from][lane % 2 * 4 + k];
		host_store128(f->umem + scratch->frames[from].addr - 2 + lane % 2 * 16, v);
	}
}

/* The resident kernel's slots in host memory. A slot has, from its beginning: */
#define RESIDENT_DOORBELL 0      /* 64 bits: sequence number, packets */
#define RESIDENT_DONE 64         /* 32 bits: sequence number of the last finished chunk */
#define RESIDENT_DESCRIPTORS 128 /* a struct frame per packet, with a tag instead of the port; then results */

struct resident {
	struct tables tables;
	uint8_t *umem, *slots;
	uint32_t slot_bytes, results; /* offset of the results */
};

CHECK_RESIDENT_LAYOUT;

/* Returns the tag of a chunk's descriptors. A descriptor with it was written for the chunk. */
DEVICE uint32_t resident_tag(uint32_t seq) { return seq % 0xffff + 1; }

/* Returns the chunk of a slot. */
DEVICE struct fused resident_chunk(const struct resident *r, uint32_t slot, uint32_t seq, uint32_t n)
{
	uint8_t *at = r->slots + (uint64_t)slot * r->slot_bytes;

	return (struct fused){r->tables, r->umem, (const struct frame *)(at + RESIDENT_DESCRIPTORS), (struct result *)(at + r->results),
			      (uint32_t *)(at + RESIDENT_DONE), 0, n, seq};
}

#endif
