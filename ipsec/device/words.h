/* 32-bit words as the ciphers of ESP use them, for a device and for a host.
 *
 * The kernels' device.h, included before this, says how a function for a device is
 * declared; without it this is plain C for a host. */
#ifndef WARPROUTE_ESP_WORDS_H
#define WARPROUTE_ESP_WORDS_H

#include <stdint.h>

#ifndef DEVICE
#define DEVICE static inline
#define ON_DEVICE 0
#endif

#if ON_DEVICE
#define UNROLL _Pragma("unroll")
#define ROLL _Pragma("unroll 1")
#else
#define UNROLL
#define ROLL
#endif

/* A table that is the same for all threads and is read at public places only. */
#if defined(__CUDACC__)
#define CONSTANT static __constant__ const
#elif ON_DEVICE
#define CONSTANT static __attribute__((constant)) const
#else
#define CONSTANT static const
#endif

/* Words of packets are loaded and stored through these, which a kernel that works in
 * the host's memory replaces. They are as they lie in memory, 4-byte aligned: the
 * first byte is the lowest, as on every machine that this is for. */
#ifndef PACKET_LOAD
#define PACKET_LOAD(p) (*(p))
#define PACKET_STORE(p, v) (*(p) = (v))
#endif

/* Two words as one. */
DEVICE uint64_t pair(uint32_t low, uint32_t high)
{
#if ON_DEVICE
	uint64_t r;
	asm("mov.b64 %0, {%1, %2};" : "=l"(r) : "r"(low), "r"(high));
	return r;
#else
	return (uint64_t)high << 32 | low;
#endif
}

/* The lower word of two, high above low, after a shift to the right by n, which is
 * less than 32. */
DEVICE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t n)
{
#if ON_DEVICE
	uint32_t r;
	asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "r"(high), "r"(n));
	return r;
#else
	return (uint32_t)(pair(low, high) >> n);
#endif
}

DEVICE uint32_t rotate_left(uint32_t x, uint32_t n) { return x << n | x >> (32 - n); }
DEVICE uint32_t rotate_right(uint32_t x, uint32_t n) { return x >> n | x << (32 - n); }

/* Bytes of two words: hexadecimal digit i of choice names the one that becomes byte i,
 * 0 to 3 of a, 4 to 7 of b. */
DEVICE uint32_t choose_bytes(uint32_t a, uint32_t b, uint32_t choice)
{
#if defined(__CUDACC__)
	return __byte_perm(a, b, choice);
#elif ON_DEVICE
	return __nvvm_prmt(a, b, choice);
#else
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t r = 0;
	for (uint32_t i = 0; i < 4; i++)
		r |= (uint32_t)(both >> (choice >> 4 * i & 7) * 8 & 0xff) << 8 * i;
	return r;
#endif
}

/* Byte i of a word. */
DEVICE uint32_t byte_of(uint32_t word, uint32_t i) { return choose_bytes(word, 0, 0x4440 + i); }

/* A word in network byte order from one in the machine's, and back. */
DEVICE uint32_t network(uint32_t x) { return choose_bytes(x, 0, 0x0123); }

/* A word at most; what CUDA calls min is a function of the toolkit's. */
DEVICE uint32_t at_most(uint32_t x, uint32_t most) { return x < most ? x : most; }

#endif
