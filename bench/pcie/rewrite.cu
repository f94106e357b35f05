/* Entry kernel of rewrite.h.
 *
 * Grid: all resident blocks. Block: 256 threads. No shared memory. PCIe payload bytes per frame:
 * reads s.read, writes s.back, both multiples of 32. */
#include "../../dataplane/gpu/kernel/warp.h"
#include "rewrite.h"

extern "C" __global__ void __launch_bounds__(THREADS) rewrite(struct shape s)
{
	rewrite_frames(s, threadIdx.x, blockIdx.x, gridDim.x);
}
