/* The kernel of rewrite.h. */
#include "../../dataplane/gpu/kernel/warp.h"
#include "rewrite.h"

extern "C" __global__ void __launch_bounds__(THREADS) rewrite(struct shape s)
{
	rewrite_by(s, thread_index(), block_index(), block_count());
}
