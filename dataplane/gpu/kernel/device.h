/* Compiler support for kernel code: clang-19 without a CUDA toolkit (which compiles the committed
 * PTX), nvcc, and a C compiler that builds the same code for host tests.
 *
 * Headers are plain C; entry kernels (*.cu) are CUDA C++. Every kernel header includes this file. */
#ifndef WARPROUTE_DEVICE_H
#define WARPROUTE_DEVICE_H

#include <stdint.h>

#if defined(__CUDA__) || defined(__CUDACC__)
#define ON_DEVICE 1
#ifndef __CUDACC__ /* clang without a toolkit */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
#define DEVICE static __device__ inline __attribute__((always_inline))
#define DEVICE_CALL static __device__ __attribute__((noinline)) /* keeps its registers apart from the caller's */
#else
#define ON_DEVICE 0
#define DEVICE static inline
#define DEVICE_CALL static __attribute__((noinline))
#endif

#if ON_DEVICE
#define PRAGMA_UNROLL _Pragma("unroll")
#define PRAGMA_UNROLL_1 _Pragma("unroll 1")
#else
#define PRAGMA_UNROLL
#define PRAGMA_UNROLL_1
#endif

/* Load a table word that another thread may store concurrently: the old or the new word, from L2,
 * which all multiprocessors share. */
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

/* Store a word of device memory that another thread may load concurrently. */
DEVICE void store32(uint32_t *p, uint32_t v)
{
#if ON_DEVICE
	asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");
#else
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
#endif
}

DEVICE void store64(uint64_t *p, uint64_t v)
{
#if ON_DEVICE
	asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory");
#else
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
#endif
}

/* Relaxed accesses with system scope: to host memory (warp.h), and to words that kernels of several GPUs share, in the memory of one of them (seqs and tunnels of struct ipsec_tables in job.h). */
DEVICE uint64_t system_load64(const uint64_t *p)
{
#if ON_DEVICE
	uint64_t v;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
	return v;
#else
	return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}

DEVICE void system_store64(uint64_t *p, uint64_t v)
{
#if ON_DEVICE
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory");
#else
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
#endif
}

/* Read-modify-write operations on words of device memory, relaxed, with system scope. They return the old value. */
DEVICE uint64_t atomic_add64(uint64_t *p, uint64_t v)
{
#if ON_DEVICE
	uint64_t old;
	asm volatile("atom.relaxed.sys.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
	return old;
#else
	return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
#endif
}

DEVICE uint64_t atomic_exchange64(uint64_t *p, uint64_t v)
{
#if ON_DEVICE
	uint64_t old;
	asm volatile("atom.relaxed.sys.global.exch.b64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
	return old;
#else
	return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
#endif
}

/* Words of shared memory that other warps of the block store. */
DEVICE uint32_t load_shared32(const uint32_t *p)
{
#if ON_DEVICE
	uint32_t v;
	asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %1; ld.relaxed.cta.shared.u32 %0, [a]; }" : "=r"(v) : "l"(p) : "memory");
	return v;
#else
	return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}

DEVICE void store_shared32(uint32_t *p, uint32_t v)
{
#if ON_DEVICE
	asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %0; st.relaxed.cta.shared.u32 [a], %1; }" :: "l"(p), "r"(v) : "memory");
#else
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
#endif
}

/* Sets bits of a word of shared memory atomically. */
DEVICE void or_shared32(uint32_t *p, uint32_t bits)
{
#if ON_DEVICE
	asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %0; red.relaxed.cta.shared.or.b32 [a], %1; }" :: "l"(p), "r"(bits) : "memory");
#else
	__atomic_fetch_or(p, bits, __ATOMIC_RELAXED);
#endif
}

/* Adds to a word of shared memory atomically, and returns the old value. */
DEVICE uint32_t add_shared32(uint32_t *p, uint32_t v)
{
#if ON_DEVICE
	uint32_t old;
	asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %1; atom.relaxed.cta.shared.add.u32 %0, [a], %2; }" : "=r"(old) : "l"(p), "r"(v) : "memory");
	return old;
#else
	return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
#endif
}

/* The same as load_shared32 and store_shared32, by read-modify-write operations, which racecheck does not take for races. */
DEVICE uint32_t atomic_load_shared32(uint32_t *p)
{
#if ON_DEVICE
	uint32_t v;
	asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %1; atom.relaxed.cta.shared.or.b32 %0, [a], 0; }" : "=r"(v) : "l"(p) : "memory");
	return v;
#else
	return load_shared32(p);
#endif
}

DEVICE void atomic_store_shared32(uint32_t *p, uint32_t v)
{
#if ON_DEVICE
	uint32_t old;
	asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %1; atom.relaxed.cta.shared.exch.b32 %0, [a], %2; }" : "=r"(old) : "l"(p), "r"(v) : "memory");
#else
	store_shared32(p, v);
#endif
}

/* Stores v in a word of shared memory if it is old, atomically. */
DEVICE void replace_shared32(uint32_t *p, uint32_t old, uint32_t v)
{
#if ON_DEVICE
	uint32_t was;
	asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %1; atom.relaxed.cta.shared.cas.b32 %0, [a], %2, %3; }" : "=r"(was) : "l"(p), "r"(old), "r"(v) : "memory");
#else
	__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

/* Returns v, which is computed or loaded here, not where it is used. */
DEVICE uint32_t in_register(uint32_t v)
{
#if ON_DEVICE
	asm volatile("mov.b32 %0, %0;" : "+r"(v));
#endif
	return v;
}

/* Orders memory accesses before the fence ahead of those after it, within the GPU. It is weaker
 * than __threadfence, which is sequentially consistent. */
DEVICE void fence_acq_rel_gpu(void)
{
#if ON_DEVICE
	asm volatile("fence.acq_rel.gpu;" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

/* The same within the block. */
DEVICE void fence_acq_rel_block(void)
{
#if ON_DEVICE
	asm volatile("fence.acq_rel.cta;" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

#define TRIE_LOAD(p) load32(p)
#define TRIE_DEVICE DEVICE

/* Unlikely branches are moved out of line: the first packets of a chunk wait for instruction
 * fetches. */
#define unlikely(x) __builtin_expect(!!(x), 0)
#define likely(x) __builtin_expect(!!(x), 1)

/* Byte swaps between network byte order and the little-endian order of GPUs. */
#ifdef __CUDACC__
DEVICE uint32_t bswap32(uint32_t x) { return __byte_perm(x, 0, 0x0123); }
DEVICE uint32_t lowest_bit(uint32_t x) { return (uint32_t)__ffs((int)x) - 1; }
#else
DEVICE uint32_t bswap32(uint32_t x) { return __builtin_bswap32(x); }
DEVICE uint32_t __popc(uint32_t x) { return __builtin_popcount(x); }
DEVICE uint32_t lowest_bit(uint32_t x) { return (uint32_t)__builtin_ctz(x); }
#endif
DEVICE uint32_t bswap16(uint32_t x) { return (x & 0xff) << 8 | (x >> 8 & 0xff); }

#endif
