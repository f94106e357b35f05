/* What the lanes of a team do together. A team is 1, 2, 4, 8, 16 or 32 lanes of a warp,
 * from a multiple of that number on; all of them come here, other lanes of the warp may
 * be anywhere. A host program that has lanes brings functions of its own. */
#ifndef WARPROUTE_ESP_TEAM_H
#define WARPROUTE_ESP_TEAM_H

#include "words.h"

#if !ON_DEVICE
static void team_join(uint32_t lanes);
static uint32_t team_swap(uint32_t v, uint32_t distance, uint32_t lanes);
static uint32_t team_next(uint32_t v, uint32_t n, uint32_t circle, uint32_t lanes);
#else
DEVICE uint32_t team_lane(void)
{
	uint32_t lane;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
}

/* The lanes of the warp that are of this lane's team. */
DEVICE uint32_t team_members(uint32_t lanes) { return 0xffffffffu >> (32 - lanes) << (team_lane() & ~(lanes - 1)); }

/* Waits for all, and sees what they wrote. */
DEVICE void team_join(uint32_t lanes)
{
#ifdef __CUDACC__
	__syncwarp(team_members(lanes));
#else
	__nvvm_bar_warp_sync(team_members(lanes));
#endif
}

/* The value of the lane at a distance, which is a power of two. */
DEVICE uint32_t team_swap(uint32_t v, uint32_t distance, uint32_t lanes)
{
#ifdef __CUDACC__
	return __shfl_xor_sync(team_members(lanes), v, distance);
#else
	return __nvvm_shfl_sync_bfly_i32(team_members(lanes), v, distance, 31);
#endif
}

/* The value of the nth lane from this one on, in a circle of so many, which is a power of
 * two: the team is made of such circles. */
DEVICE uint32_t team_next(uint32_t v, uint32_t n, uint32_t circle, uint32_t lanes)
{
#ifdef __CUDACC__
	return __shfl_sync(team_members(lanes), v, team_lane() + n, circle);
#else
	return __nvvm_shfl_sync_idx_i32(team_members(lanes), v, team_lane() + n, (32 - circle) << 8 | 31);
#endif
}
#endif

DEVICE uint32_t team_xor(uint32_t v, uint32_t lanes)
{
	ROLL
	for (uint32_t distance = 1; distance < lanes; distance *= 2)
		v ^= team_swap(v, distance, lanes);
	return v;
}

DEVICE uint32_t team_add(uint32_t v, uint32_t lanes)
{
	ROLL
	for (uint32_t distance = 1; distance < lanes; distance *= 2)
		v += team_swap(v, distance, lanes);
	return v;
}

/* The largest of all. */
DEVICE uint32_t team_most(uint32_t v, uint32_t lanes)
{
	ROLL
	for (uint32_t distance = 1; distance < lanes; distance *= 2) {
		uint32_t other = team_swap(v, distance, lanes);
		v = v > other ? v : other;
	}
	return v;
}

#endif
