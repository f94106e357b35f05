/* What kernels need of CUDA, for three compilers: clang-19 without a toolkit
 * (which makes the PTX that is committed), nvcc, and a C compiler for the host,
 * where a test runs the same code without a GPU.
 *
 * Sources are plain C but for the entry kernels (*.cu). */
#ifndef WARPROUTE_DEVICE_H
#define WARPROUTE_DEVICE_H

#include <stdint.h>

#if defined(__CUDA__) || defined(__CUDACC__)
#define ON_DEVICE 1
#ifndef __CUDACC__ /* clang, told of no toolkit */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
#define DEVICE static __device__ inline __attribute__((always_inline))
#else
#define ON_DEVICE 0
#define DEVICE static inline
#endif

#if ON_DEVICE
#define UNROLL _Pragma("unroll")
#define ROLL _Pragma("unroll 1")
#else
#define UNROLL
#define ROLL
#endif

/* Words of tables are stored by others while they are read: a load of one sees an
 * old or a new word, and goes to the level of cache that all multiprocessors share. */
DEVICE uint32_t load32(const uint32_t *p)
{
#if ON_DEVICE
	uint32_t v;
	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
#else
	return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}

DEVICE uint64_t load64(const uint64_t *p)
{
#if ON_DEVICE
	uint64_t v;
	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
#else
	return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}

/* What is loaded before it was so no later than what is loaded after it. */
DEVICE void fence_loads(void)
{
#if ON_DEVICE
	asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

#define TRIE_LOAD(p) load32(p)
#define TRIE_DEVICE DEVICE

/* What seldom happens is laid out of the way: a chunk's first packets wait for every
 * line of instructions. */
#define SELDOM(x) __builtin_expect(!!(x), 0)
#define MOSTLY(x) __builtin_expect(!!(x), 1)

/* Numbers in packets are in network byte order. */
#ifdef __CUDACC__
DEVICE uint32_t swap32(uint32_t x) { return __byte_perm(x, 0, 0x0123); }
DEVICE uint32_t count_bits(uint32_t x) { return __popc(x); }
#else
DEVICE uint32_t swap32(uint32_t x) { return __builtin_bswap32(x); }
DEVICE uint32_t count_bits(uint32_t x) { return __builtin_popcount(x); }
#endif
DEVICE uint32_t swap16(uint32_t x) { return (x & 0xff) << 8 | (x >> 8 & 0xff); }

#endif
