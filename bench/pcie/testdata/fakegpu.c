/* Fake driver with two GPUs that rewrite nothing. A launch takes PASS_NS, and is done when all open
 * contexts have launched as often. FAULT "launch" fails launches on the second GPU; "late" delays
 * them by half a pass. */
#include <time.h>

/* Everything but launches and contexts comes from package cuda's fake driver. */
#define TWELVE_ZERO /* without kernel parameter checks */
#define cuDevicePrimaryCtxRetain other_cuDevicePrimaryCtxRetain
#define cuDevicePrimaryCtxRelease_v2 other_cuDevicePrimaryCtxRelease_v2
#define cuCtxPushCurrent_v2 other_cuCtxPushCurrent_v2
#define cuModuleLoadDataEx other_cuModuleLoadDataEx
#define cuModuleGetFunction other_cuModuleGetFunction
#define cuLaunchKernel other_cuLaunchKernel
#define cuStreamSynchronize other_cuStreamSynchronize
#include "../../../cuda/testdata/fakecuda.c"
#undef cuDevicePrimaryCtxRetain
#undef cuDevicePrimaryCtxRelease_v2
#undef cuCtxPushCurrent_v2
#undef cuModuleLoadDataEx
#undef cuModuleGetFunction
#undef cuLaunchKernel
#undef cuStreamSynchronize

enum { PASS_NS = 20000000, PATIENCE = 500 /* passes */, CONTEXT = 0xc0 };

static u32 contexts, launches[GPUS];
static ptr memory[GPUS];
static _Thread_local u32 gpu; /* of the current context */

/* Sleeps for ns; signals of Go's runtime do not shorten it. */
static void take(long ns)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += (end.tv_nsec + ns) / 1000000000;
	end.tv_nsec = (end.tv_nsec + ns) % 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0))
		;
}

CUresult cuDevicePrimaryCtxRetain(handle *ctx, int dev)
{
	*ctx = CONTEXT + dev;
	launches[dev] = 0;
	memory[dev] = 0;
	__atomic_add_fetch(&contexts, 1, __ATOMIC_SEQ_CST);
	return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(int dev)
{
	(void)dev;
	__atomic_sub_fetch(&contexts, 1, __ATOMIC_SEQ_CST);
	return 0;
}
CUresult cuCtxPushCurrent_v2(handle ctx) { gpu = (u32)(ctx - CONTEXT); return 0; }

CUresult cuModuleLoadDataEx(handle *module, const char *image, u32 n, const u32 *options, void **values)
{
	(void)n, (void)options, (void)values;
	*module = 1;
	return strstr(image, ".entry rewrite(") ? 0 : 218;
}
CUresult cuModuleGetFunction(handle *f, handle module, const char *name)
{
	(void)module;
	*f = 1;
	return strcmp(name, "rewrite") ? 500 : 0;
}

CUresult cuLaunchKernel(handle f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, handle stream, void **params, void **extra)
{
	(void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
	if (gpu == 1 && !strcmp(FAULT, "launch"))
		return 700;
	if (gpu == 1 && !strcmp(FAULT, "late"))
		take(PASS_NS / 2);
	ptr mine = *(ptr *)params[0];
	__atomic_store_n(&memory[gpu], mine, __ATOMIC_SEQ_CST);
	if (contexts == 2 && mine == __atomic_load_n(&memory[!gpu], __ATOMIC_SEQ_CST))
		return 1;
	__atomic_add_fetch(&launches[gpu], 1, __ATOMIC_SEQ_CST);
	return 0;
}
CUresult cuStreamSynchronize(handle s)
{
	u32 n = launches[gpu], at = gpu;

	(void)s;
	for (int i = 0; i < PATIENCE; i++) {
		take(PASS_NS);
		if (contexts < 2 || !strcmp(FAULT, "launch") || __atomic_load_n(&launches[!at], __ATOMIC_SEQ_CST) >= n)
			return 0;
	}
	return 600;
}
