/* Operations on 32-bit words for the ESP ciphers. Included by all other headers of this folder.
 *
 * A kernel includes device.h first, which defines DEVICE; without it this is plain C for a host. */
#ifndef WARPROUTE_ESP_WORDS_H
#define WARPROUTE_ESP_WORDS_H

#include <stdint.h>

#ifndef DEVICE
#define DEVICE static inline
#define ON_DEVICE 0
#endif

#if ON_DEVICE
#define PRAGMA_UNROLL _Pragma("unroll")
#define PRAGMA_UNROLL_1 _Pragma("unroll 1")
#else
#define PRAGMA_UNROLL
#define PRAGMA_UNROLL_1
#endif

/* A table in constant memory; all lanes read the same public index. */
#if defined(__CUDACC__)
#define CONSTANT static __constant__ const
#elif ON_DEVICE
#define CONSTANT static __attribute__((constant)) const
#else
#define CONSTANT static const
#endif

/* Access to 4-byte aligned packet words in memory order (little-endian). A kernel that works in
 * host memory redefines them. */
#ifndef PACKET_LOAD
#define PACKET_LOAD(p) (*(p))
#define PACKET_STORE(p, v) (*(p) = (v))
#endif

DEVICE uint64_t make_u64(uint32_t low, uint32_t high)
{
#if ON_DEVICE
	uint64_t r;
	asm("mov.b64 %0, {%1, %2};" : "=l"(r) : "r"(low), "r"(high));
	return r;
#else
	return (uint64_t)high << 32 | low;
#endif
}

/* CUDA's intrinsics for the other compilers. __funnelshift_r shifts high:low right by n < 32.
 * __byte_perm picks byte i of the result by hexadecimal digit i of selector: 0 to 3 of a, 4 to 7
 * of b. */
#ifndef __CUDACC__
DEVICE uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t n)
{
#if ON_DEVICE
	uint32_t r;
	asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(n));
	return r;
#else
	return (uint32_t)(make_u64(low, high) >> n);
#endif
}

DEVICE uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector)
{
#if ON_DEVICE
	return __nvvm_prmt(a, b, selector);
#else
	uint64_t both = make_u64(a, b);
	uint32_t r = 0;
	for (uint32_t i = 0; i < 4; i++)
		r |= (uint32_t)(both >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
	return r;
#endif
}
#endif

DEVICE uint32_t rotate_left(uint32_t x, uint32_t n) { return x << n | x >> (32 - n); }
DEVICE uint32_t rotate_right(uint32_t x, uint32_t n) { return x >> n | x << (32 - n); }

/* Returns byte i of a word. */
DEVICE uint32_t byte_of(uint32_t word, uint32_t i) { return __byte_perm(word, 0, 0x4440 + i); }

/* Converts a word between host and network byte order. */
DEVICE uint32_t be32(uint32_t x) { return __byte_perm(x, 0, 0x0123); }

/* Returns the smaller word. nvcc defines min. */
DEVICE uint32_t min32(uint32_t x, uint32_t y) { return x < y ? x : y; }

#endif
