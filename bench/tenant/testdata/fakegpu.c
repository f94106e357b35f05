/* Fake driver with two GPUs whose kernels take ITERATION_NS per iteration and run the kernel's code.
 * FAULT "slices" lets another process have the GPU after each kernel; "wrong" computes something else. */
#include <time.h>

/* Everything but launches and time comes from package cuda's fake driver. */
#define TWELVE_ZERO /* without kernel parameter checks */
#define cuModuleLoadDataEx other_cuModuleLoadDataEx
#define cuModuleGetFunction other_cuModuleGetFunction
#define cuLaunchKernel other_cuLaunchKernel
#define cuStreamSynchronize other_cuStreamSynchronize
#define cuEventCreate other_cuEventCreate
#define cuEventRecord other_cuEventRecord
#define cuEventElapsedTime other_cuEventElapsedTime
#include "../../../cuda/testdata/fakecuda.c"
#undef cuModuleLoadDataEx
#undef cuModuleGetFunction
#undef cuLaunchKernel
#undef cuStreamSynchronize
#undef cuEventCreate
#undef cuEventRecord
#undef cuEventElapsedTime

#include "../../../dataplane/gpu/kernel/device.h"
#include "../tenant.h"

enum { ITERATION_NS = 50, SLICE_NS = 2400000 };

static int64_t device_ns;      /* time that kernels have taken on the device */
static int64_t end_ns;         /* host time at which the last kernel ends */
static int64_t events[2];      /* device time of each event */
static handle created;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

CUresult cuModuleLoadDataEx(handle *module, const char *image, u32 n, const u32 *options, void **values)
{
	(void)n, (void)options, (void)values;
	*module = 1;
	return strstr(image, ".entry work(") ? 0 : 218;
}
CUresult cuModuleGetFunction(handle *f, handle module, const char *name)
{
	(void)module;
	*f = 1;
	return strcmp(name, "work") ? 500 : 0;
}

CUresult cuLaunchKernel(handle f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, handle stream, void **params, void **extra)
{
	u32 *out = *(u32 **)params[0], n = *(u32 *)params[1];
	int64_t now = now_ns();

	(void)f, (void)stream;
	if (bx != THREADS || by * bz * gy * gz != 1 || gx == 0 || shared || extra)
		return 1;
	for (u32 block = 0; block < gx; block++)
		out[block] = iterate(block ? 0 : n);
	for (u32 block = 1; block < gx; block++)
		out[block] = out[0];
	if (!strcmp(FAULT, "wrong"))
		out[0]++;
	device_ns += (int64_t)n * ITERATION_NS;
	end_ns = (end_ns > now ? end_ns : now) + (int64_t)n * ITERATION_NS;
	if (!strcmp(FAULT, "slices"))
		end_ns += SLICE_NS;
	return 0;
}
CUresult cuStreamSynchronize(handle s)
{
	struct timespec end = {end_ns / 1000000000, end_ns % 1000000000};

	(void)s;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, 0))
		; /* signals of Go's runtime do not shorten it */
	return 0;
}

CUresult cuEventCreate(handle *e, u32 flags) { (void)flags; *e = 1 + created++ % 2; return 0; } /* a process opens it again */
CUresult cuEventRecord(handle e, handle s) { (void)s; events[e - 1] = device_ns; return 0; }
CUresult cuEventElapsedTime(float *ms, handle start, handle end)
{
	*ms = (float)(events[end - 1] - events[start - 1]) / 1e6f;
	return 0;
}
