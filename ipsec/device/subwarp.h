/* Communication between the lanes of a subwarp: 1, 2, 4, 8, 16 or 32 adjacent lanes of a warp, as
 * CUDA's thread_block_tile. All lanes of a subwarp call these together; other lanes of the warp may
 * diverge. A host test defines subwarp_sync, subwarp_shfl_xor and subwarp_rotate. */
#ifndef WARPROUTE_ESP_SUBWARP_H
#define WARPROUTE_ESP_SUBWARP_H

#include "words.h"

#if !ON_DEVICE
static void subwarp_sync(uint32_t lanes);
static uint32_t subwarp_shfl_xor(uint32_t v, uint32_t distance, uint32_t lanes);
static uint32_t subwarp_rotate(uint32_t v, uint32_t n, uint32_t width, uint32_t lanes);
#else
DEVICE uint32_t subwarp_lane(void)
{
	uint32_t lane;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

/* Returns the lane mask of this lane's subwarp. */
DEVICE uint32_t subwarp_mask(uint32_t lanes) { return 0xffffffffu >> (32 - lanes) << (subwarp_lane() & ~(lanes - 1)); }

/* Waits for all lanes of the subwarp and makes their writes visible. */
DEVICE void subwarp_sync(uint32_t lanes)
{
#ifdef __CUDACC__
	__syncwarp(subwarp_mask(lanes));
#else
	__nvvm_bar_warp_sync(subwarp_mask(lanes));
#endif
}

/* Returns the value of the lane whose number differs by xor with distance, a power of two. */
DEVICE uint32_t subwarp_shfl_xor(uint32_t v, uint32_t distance, uint32_t lanes)
{
#ifdef __CUDACC__
	return __shfl_xor_sync(subwarp_mask(lanes), v, distance);
#else
	return __nvvm_shfl_sync_bfly_i32(subwarp_mask(lanes), v, distance, 31);
#endif
}

/* Returns the value of the lane n further on, modulo width, a power of two that divides the subwarp. */
DEVICE uint32_t subwarp_rotate(uint32_t v, uint32_t n, uint32_t width, uint32_t lanes)
{
#ifdef __CUDACC__
	return __shfl_sync(subwarp_mask(lanes), v, subwarp_lane() + n, width);
#else
	return __nvvm_shfl_sync_idx_i32(subwarp_mask(lanes), v, subwarp_lane() + n, (32 - width) << 8 | 31);
#endif
}
#endif

/* Reductions over the subwarp; every lane gets the result. */
DEVICE uint32_t subwarp_xor(uint32_t v, uint32_t lanes)
{
	PRAGMA_UNROLL_1
	for (uint32_t distance = 1; distance < lanes; distance *= 2)
		v ^= subwarp_shfl_xor(v, distance, lanes);
	return v;
}

DEVICE uint32_t subwarp_add(uint32_t v, uint32_t lanes)
{
	PRAGMA_UNROLL_1
	for (uint32_t distance = 1; distance < lanes; distance *= 2)
		v += subwarp_shfl_xor(v, distance, lanes);
	return v;
}

DEVICE uint32_t subwarp_max(uint32_t v, uint32_t lanes)
{
	PRAGMA_UNROLL_1
	for (uint32_t distance = 1; distance < lanes; distance *= 2) {
		uint32_t other = subwarp_shfl_xor(v, distance, lanes);
		v = v > other ? v : other;
	}
	return v;
}

#endif
