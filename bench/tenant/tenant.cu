/* Entry kernel of tenant.h. */
#include "../../dataplane/gpu/kernel/warp.h"
#include "tenant.h"

/* Computes in all threads, and stores a result per block in out.
 *
 * Grid: any; by default all resident blocks. Block: 1,024 threads. No shared memory. No PCIe
 * transfers: out is in device memory. */
extern "C" __global__ void __launch_bounds__(THREADS) work(uint32_t *out, uint32_t iterations)
{
	uint32_t v = iterate(iterations);

	if (threadIdx.x == 0)
		out[blockIdx.x] = v;
}
