/* What the threads of a warp and of a block do together, and how they reach the
 * host's memory. */
#ifndef WARPROUTE_WARP_H
#define WARPROUTE_WARP_H

#include "device.h"

#define WARP 32
#define EVERYONE 0xffffffffu

struct words4 {
	uint32_t w[4];
};

#if ON_DEVICE
#ifdef __CUDACC__
DEVICE uint32_t thread_index(void) { return threadIdx.x; }
DEVICE uint32_t block_index(void) { return blockIdx.x; }
DEVICE uint32_t block_count(void) { return gridDim.x; }
DEVICE uint32_t shuffle(uint32_t v, uint32_t lane) { return __shfl_sync(EVERYONE, v, lane); }
DEVICE void join_warp(void) { __syncwarp(); }
DEVICE void join_block(void) { __syncthreads(); }
#else
DEVICE uint32_t thread_index(void) { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE uint32_t block_index(void) { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE uint32_t block_count(void) { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE uint32_t shuffle(uint32_t v, uint32_t lane) { return __nvvm_shfl_sync_idx_i32(EVERYONE, v, lane, WARP - 1); }
DEVICE void join_warp(void) { __nvvm_bar_warp_sync(EVERYONE); }
DEVICE void join_block(void) { __syncthreads(); }
#endif

DEVICE uint32_t lane_index(void) { return thread_index() % WARP; }
DEVICE uint32_t warp_index(void) { return thread_index() / WARP; }

/* CUDA has a function named all already. */
DEVICE int all_of_warp(int p)
{
	int is;
	asm volatile("{ .reg .pred a, b; setp.ne.s32 a, %1, 0; vote.sync.all.pred b, a, 0xffffffff; selp.s32 %0, 1, 0, b; }"
		     : "=r"(is) : "r"(p) : "memory");
	return is;
}

/* Waits for all threads of the block, and tells all of them whether p is not 0 for any. */
DEVICE int any_of_block(int p)
{
	int is;
	asm volatile("{ .reg .pred a, b; setp.ne.s32 a, %1, 0; barrier.red.or.pred b, 0, a; selp.s32 %0, 1, 0, b; }"
		     : "=r"(is) : "r"(p) : "memory");
	return is;
}

/* A bit for each lane where p is not 0. */
DEVICE uint32_t lanes_where(int p)
{
	uint32_t lanes;
	asm volatile("{ .reg .pred a; setp.ne.s32 a, %1, 0; vote.sync.ballot.b32 %0, a, 0xffffffff; }"
		     : "=r"(lanes) : "r"(p) : "memory");
	return lanes;
}

/* Memory of the host is read and written past all caches of the device, which
 * the host does not know of. */
DEVICE uint64_t host_load64(const uint64_t *p)
{
	uint64_t v;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
}

DEVICE struct words4 host_load128(const void *p)
{
	struct words4 v;
	asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3]) : "l"(p) : "memory");
	return v;
}

DEVICE void host_store128(void *p, struct words4 v)
{
	asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :: "l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3]) : "memory");
}

DEVICE uint8_t host_load8(const uint8_t *p) { return *(const volatile uint8_t *)p; }
DEVICE void host_store8(uint8_t *p, uint8_t v) { *(volatile uint8_t *)p = v; }

DEVICE void host_store64(uint64_t *p, uint64_t v)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory");
}

DEVICE void host_store32(uint32_t *p, uint32_t v)
{
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}

/* What was stored before, by this thread and by those it has joined, the host
 * sees before what this thread stores after. */
DEVICE void fence_host(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
DEVICE void fence_device(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

DEVICE void rest(uint32_t ns) { asm volatile("nanosleep.u32 %0;" :: "r"(ns)); }

DEVICE uint32_t count_up(uint32_t *p)
{
	uint32_t old;
	asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(old) : "l"(p) : "memory");
	return old;
}
#else
/* A host program that has lanes brings functions of its own. */
static uint32_t lane_index(void);
static uint32_t shuffle(uint32_t v, uint32_t lane);
static void join_warp(void);
static int all_of_warp(int p);
static uint32_t lanes_where(int p);

DEVICE uint64_t host_load64(const uint64_t *p) { return *p; }
DEVICE struct words4 host_load128(const void *p) { return *(const struct words4 *)p; }
DEVICE void host_store128(void *p, struct words4 v) { *(struct words4 *)p = v; }
DEVICE uint8_t host_load8(const uint8_t *p) { return *p; }
DEVICE void host_store8(uint8_t *p, uint8_t v) { *p = v; }
DEVICE void host_store64(uint64_t *p, uint64_t v) { *p = v; }
DEVICE void host_store32(uint32_t *p, uint32_t v) { *p = v; }
#endif

#endif
