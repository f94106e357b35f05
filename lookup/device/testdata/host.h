/* Host versions of warp.h: one thread after another runs a block's code. Included by lookup.cu. */
#ifndef WARPROUTE_HOST_H
#define WARPROUTE_HOST_H

#include <string.h>

#include "../../../dataplane/gpu/kernel/device.h"

#define KERNEL static __attribute__((unused)) void
#define SHARED static _Thread_local
#define __launch_bounds__(threads)

static _Thread_local struct {
	uint32_t x;
} threadIdx, blockIdx, gridDim; /* of the thread that runs */

struct words4 {
	uint32_t w[4];
};

DEVICE struct words4 host_load128(const void *p)
{
	struct words4 v;
	memcpy(&v, __builtin_assume_aligned(p, 16), sizeof v); /* UBSan reports misaligned accesses */
	return v;
}

DEVICE void host_store128(void *p, struct words4 v) { memcpy(__builtin_assume_aligned(p, 16), &v, sizeof v); }
DEVICE uint64_t host_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
DEVICE void host_store64(uint64_t *p, uint64_t v) { *p = v; }
DEVICE void host_store32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
DEVICE void fence_acq_rel_sys(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
DEVICE void __syncthreads(void) { } /* each thread runs alone */

#endif
