/* CUDA's warp and block intrinsics for clang without a toolkit, and access to host memory. A host
 * test defines the intrinsics that it needs. Included by mailbox kernels and benchmarks. */
#ifndef WARPROUTE_WARP_H
#define WARPROUTE_WARP_H

#include "device.h"

#define WARP_SIZE 32
#define FULL_MASK 0xffffffffu

struct words4 {
	uint32_t w[4];
};

#if ON_DEVICE
#ifndef __CUDACC__
struct dim3;
struct uint3;
#include <__clang_cuda_builtin_vars.h> /* threadIdx, blockIdx, gridDim */

DEVICE uint32_t __shfl_sync(uint32_t mask, uint32_t v, uint32_t lane) { return __nvvm_shfl_sync_idx_i32(mask, v, lane, WARP_SIZE - 1); }
DEVICE void __syncwarp(void) { __nvvm_bar_warp_sync(FULL_MASK); }

/* The votes take all lanes; the mask is CUDA's argument and must be FULL_MASK. */
DEVICE int __all_sync(uint32_t, int p)
{
	int all;
	asm volatile("{ .reg .pred a, b; setp.ne.s32 a, %1, 0; vote.sync.all.pred b, a, 0xffffffff; selp.s32 %0, 1, 0, b; }"
		     : "=r"(all) : "r"(p) : "memory");
	return all;
}

DEVICE uint32_t __ballot_sync(uint32_t, int p)
{
	uint32_t lanes;
	asm volatile("{ .reg .pred a; setp.ne.s32 a, %1, 0; vote.sync.ballot.b32 %0, a, 0xffffffff; }"
		     : "=r"(lanes) : "r"(p) : "memory");
	return lanes;
}

DEVICE int __syncthreads_or(int p)
{
	int any;
	asm volatile("{ .reg .pred a, b; setp.ne.s32 a, %1, 0; barrier.red.or.pred b, 0, a; selp.s32 %0, 1, 0, b; }"
		     : "=r"(any) : "r"(p) : "memory");
	return any;
}

DEVICE void __nanosleep(uint32_t ns) { asm volatile("nanosleep.u32 %0;" :: "r"(ns)); }
#endif

DEVICE uint32_t lane_id(void) { return threadIdx.x % WARP_SIZE; }
DEVICE uint32_t warp_id(void) { return threadIdx.x / WARP_SIZE; }

/* Host memory is accessed past all GPU caches, which are not coherent with the host. */
DEVICE uint32_t host_load32(const uint32_t *p)
{
	uint32_t v;
	asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

DEVICE uint64_t host_load64(const uint64_t *p) { return system_load64(p); }

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

DEVICE void host_store64(uint64_t *p, uint64_t v) { system_store64(p, v); }

DEVICE void host_store32(uint32_t *p, uint32_t v)
{
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
}

/* Orders stores of this thread, and stores that it observed at a barrier, before its later stores
 * as seen by the host. It is weaker than __threadfence_system, which is sequentially consistent. */
DEVICE void fence_acq_rel_sys(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

/* Increments a word of device memory and returns the old value. CUDA's atomicAdd is relaxed; this is acquire and release: it orders
 * the accesses before it, and those of other blocks that incremented the word before. */
DEVICE uint32_t atomic_inc_acq_rel(uint32_t *p)
{
	uint32_t old;
	asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(old) : "l"(p) : "memory");
	return old;
}
#else
static uint32_t lane_id(void);
static uint32_t __shfl_sync(uint32_t mask, uint32_t v, uint32_t lane);
static void __syncwarp(void);
static int __all_sync(uint32_t mask, int p);
static uint32_t __ballot_sync(uint32_t mask, int p);

DEVICE void fence_acq_rel_sys(void) { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
DEVICE uint32_t host_load32(const uint32_t *p) { return *p; }
DEVICE uint64_t host_load64(const uint64_t *p) { return *p; }
#ifndef SEGMENT_ACCESS
#define SEGMENT_ACCESS(p) (void)0
#endif
DEVICE struct words4 host_load128(const void *p) { SEGMENT_ACCESS(p); return *(const struct words4 *)p; }
DEVICE void host_store128(void *p, struct words4 v) { *(struct words4 *)p = v; }
#ifndef BYTE_ACCESS
#define BYTE_ACCESS() (void)0
#endif
DEVICE uint8_t host_load8(const uint8_t *p) { BYTE_ACCESS(); return *p; }
DEVICE void host_store8(uint8_t *p, uint8_t v) { BYTE_ACCESS(); *p = v; }
DEVICE void host_store64(uint64_t *p, uint64_t v) { *p = v; }
DEVICE void host_store32(uint32_t *p, uint32_t v) { *p = v; }
#endif

#endif
