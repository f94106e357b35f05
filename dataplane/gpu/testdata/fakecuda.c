/* Fake driver with two GPUs that process no packets. It counts open resources, fails calls on
 * request, and applies the table updates of patch_tables. Device memory is host memory. A test
 * controls it through the file STATE. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kernel/layout.h"
#include "layout.h"

typedef int CUresult;
typedef uintptr_t handle, ptr;
typedef uint32_t u32;

static struct state {
	u32 calls;       /* calls so far */
	u32 fail_at;     /* number of the call to fail */
	char fail[64];   /* or name of the next call to fail */
	char failed[64]; /* name of the failed call */
	u32 result;      /* its result */
	int held;        /* open contexts, modules, allocations, registrations, streams */
	u32 running[2];  /* running blocks per device: its streams are busy */
	u32 faulted;     /* every call fails */
	u32 copies;      /* copy memory; otherwise nothing reads it */
	u32 version;     /* of CUDA; 0: 12.0. Green contexts work from 12.4 on, streams in them from 12.5 */
	u32 mode, mps;   /* how the GPUs are shared: CUcomputemode, and by MPS */
	u32 partitioned; /* streams in green contexts so far */
	u32 busy;        /* a launched kernel runs until the test ends its blocks */
	u32 peers;       /* GPUs have access to each other's memory, with atomic operations */
	u32 enabled;     /* calls of cuCtxEnablePeerAccess */
} *state;

CHECK_STATE_LAYOUT;

static __attribute__((constructor)) void map_state(void)
{
	int fd = open(STATE, O_RDWR);
	state = mmap(0, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (state == MAP_FAILED)
		abort();
	close(fd);
}

/* Counts a call and returns its result. */
static CUresult call(const char *name)
{
	u32 number = __atomic_add_fetch(&state->calls, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&state->faulted, __ATOMIC_SEQ_CST))
		return 700;
	if (number != state->fail_at && strcmp(name, state->fail))
		return 0;
	state->fail[0] = 0;
	snprintf(state->failed, sizeof state->failed, "%s", name);
	return state->result;
}
static CUresult hold(CUresult result, int n)
{
	if (!result)
		__atomic_add_fetch(&state->held, n, __ATOMIC_SEQ_CST);
	return result;
}
#define CALL do { CUresult result_ = call(__func__); if (result_) return result_; } while (0)
#define TAKE return hold(call(__func__), 1)
#define GIVE return hold(call(__func__), -1)

static const struct { int result; const char *name, *text; } results[] = {
	{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};
static CUresult describe(int result, int text, const char **out)
{
	for (size_t i = 0; i < sizeof results / sizeof *results; i++)
		if (results[i].result == result) {
			*out = text ? results[i].text : results[i].name;
			return 0;
		}
	return 1;
}
CUresult cuGetErrorName(int result, const char **name) { return describe(result, 0, name); }
CUresult cuGetErrorString(int result, const char **text) { return describe(result, 1, text); }

CUresult cuInit(u32 flags) { (void)flags; CALL; return 0; }
CUresult cuDriverGetVersion(int *version) { CALL; *version = state->version ? state->version : 12000; return 0; }
CUresult cuDeviceGetCount(int *n) { CALL; *n = 2; return 0; }
CUresult cuDeviceGet(int *dev, int ordinal) { CALL; *dev = ordinal; return 0; }
CUresult cuDeviceGetName(char *name, int size, int dev) { CALL; snprintf(name, size, "Fake %d", dev); return 0; }
CUresult cuDeviceGetPCIBusId(char *id, int size, int dev) { CALL; snprintf(id, size, "0000:%02X:00.0", 0x1a + dev); return 0; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, int dev) { (void)dev; CALL; *bytes = (size_t)8 << 30; return 0; }
CUresult cuDeviceGetAttribute(int *value, int attribute, int dev)
{
	(void)dev;
	CALL;
	switch (attribute) {
	case 16: *value = 10; break; /* multiprocessors */
	case 20: *value = state->mode; break;
	case 39: *value = 2048; break; /* threads of a multiprocessor */
	case 81: *value = 4 * 77824; break; /* shared memory of a multiprocessor: four blocks */
	case 82: *value = 65536; break; /* registers of a multiprocessor */
	case 97: *value = 232448; break; /* shared memory of a block */
	case 106: *value = 32; break; /* blocks of a multiprocessor */
	case 111: *value = 1024; break; /* reserved shared memory of a block */
	case 133: *value = state->mps; break;
	default: *value = 1;
	}
	return 0;
}

CUresult cuDeviceGetP2PAttribute(int *value, int attribute, int dev, int peer) { (void)attribute; CALL; *value = state->peers && dev != peer; return 0; }

/* A context's handle is CONTEXT plus its device. */
enum { CONTEXT = 0xc0 };
static _Thread_local handle current;
CUresult cuDevicePrimaryCtxRetain(handle *ctx, int dev) { *ctx = CONTEXT + dev; TAKE; }
CUresult cuDevicePrimaryCtxRelease_v2(int dev) { (void)dev; GIVE; }
CUresult cuCtxSetCurrent(handle ctx) { CALL; current = ctx; return 0; }
CUresult cuCtxPushCurrent_v2(handle ctx) { CALL; current = ctx; return 0; }
CUresult cuCtxPopCurrent_v2(handle *ctx) { CALL; *ctx = current; return 0; }
CUresult cuCtxEnablePeerAccess(handle peer, u32 flags) { (void)flags; CALL; state->enabled += peer != current; return peer == current ? 101 : 0; }
CUresult cuCtxSynchronize(void) { CALL; return 0; }
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { CALL; *least = 0; *greatest = -5; return 0; }

enum { RESIDENT = 1, LAUNCHED, PATCH, GATEWAY };
CUresult cuModuleLoadDataEx(handle *module, const char *image, u32 n, const u32 *options, void **values)
{
	(void)image, (void)n, (void)options, (void)values;
	*module = 0x30;
	TAKE;
}
CUresult cuModuleUnload(handle module) { (void)module; GIVE; }
CUresult cuModuleGetFunction(handle *f, handle module, const char *name)
{
	(void)module;
	CALL;
	*f = !strcmp(name, "resident") ? RESIDENT : !strcmp(name, "launched") ? LAUNCHED : !strcmp(name, "patch_tables") ? PATCH : !strcmp(name, "gateway") ? GATEWAY : 0;
	return *f ? 0 : 500;
}
CUresult cuFuncSetAttribute(handle f, int attribute, int value) { (void)f, (void)attribute, (void)value; CALL; return 0; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, handle f, int threads, size_t shared)
{
	(void)f, (void)shared;
	CALL;
	*blocks = 2048 / threads;
	return 0;
}

struct patch {
	uint64_t at, word;
	u32 count, bytes;
};
CHECK_PATCH_LAYOUT;
static void patch_tables(const struct patch *list, u32 n, uint64_t *applied, uint64_t sum)
{
	for (u32 i = 0; state->copies && i < n; i++)
		for (u32 k = 0; k < list[i].count; k++)
			memcpy((char *)list[i].at + (size_t)k * list[i].bytes, &list[i].word, list[i].bytes);
	__atomic_store_n(applied, sum, __ATOMIC_SEQ_CST);
}
CUresult cuLaunchKernel(handle f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, handle stream, void **params, void **extra)
{
	(void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
	CALL;
	if (f == PATCH)
		patch_tables(*(void **)params[0], *(u32 *)params[1], *(void **)params[2], *(uint64_t *)params[3]);
	else if (state->busy)
		__atomic_store_n(&state->running[current - CONTEXT], 1, __ATOMIC_SEQ_CST);
	return 0;
}

/* Untouched memory is not committed. Its size is stored in front of it. */
enum { FRONT = 4096 };
CUresult cuMemAlloc_v2(ptr *at, size_t n)
{
	CALL;
	size_t *front = mmap(0, n + FRONT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (front == MAP_FAILED)
		return 2;
	*front = n + FRONT;
	*at = (ptr)front + FRONT;
	return hold(0, 1);
}
CUresult cuMemFree_v2(ptr at)
{
	CALL;
	munmap((void *)(at - FRONT), *(size_t *)(at - FRONT));
	return hold(0, -1);
}
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) { CALL; *unused = *total = (size_t)8 << 30; return 0; }
CUresult cuMemHostRegister_v2(void *host, size_t n, u32 flags) { (void)host, (void)n, (void)flags; TAKE; }
CUresult cuMemHostUnregister(void *host) { (void)host; GIVE; }
CUresult cuMemHostGetDevicePointer_v2(ptr *at, void *host, u32 flags) { (void)flags; CALL; *at = (ptr)host; return 0; }

static void copy(ptr to, ptr from, size_t n)
{
	static const char zeros[4096];
	for (size_t k = 0, part; state->copies && k < n; k += part) {
		part = n - k < sizeof zeros ? n - k : sizeof zeros;
		if (memcmp((char *)from + k, zeros, part) || memcmp((char *)to + k, zeros, part))
			memcpy((char *)to + k, (char *)from + k, part);
	}
}
CUresult cuMemcpyHtoD_v2(ptr to, ptr from, size_t n) { CALL; copy(to, from, n); return 0; }
CUresult cuMemcpyHtoDAsync_v2(ptr to, ptr from, size_t n, handle s) { (void)s; CALL; copy(to, from, n); return 0; }
CUresult cuMemcpyDtoH_v2(ptr to, ptr from, size_t n) { CALL; copy(to, from, n); return 0; }
CUresult cuMemsetD32Async(ptr to, u32 value, size_t n, handle s)
{
	(void)s;
	CALL;
	while (n--)
		((u32 *)to)[n] = value;
	return 0;
}

CUresult cuStreamCreateWithPriority(handle *s, u32 flags, int priority) { (void)flags, (void)priority; *s = 0x50; TAKE; }
CUresult cuStreamDestroy_v2(handle s) { (void)s; GIVE; }
CUresult cuStreamQuery(handle s)
{
	(void)s;
	CALL;
	return __atomic_load_n(&state->running[current - CONTEXT], __ATOMIC_SEQ_CST) ? 600 : 0;
}
CUresult cuStreamSynchronize(handle s) { (void)s; CALL; return 0; }

/* Partitions of multiples of two multiprocessors. */
struct resource { u32 kind; char pad[92]; u32 sms; char rest[44]; };
enum { GREEN = 0x90 };
CUresult cuDeviceGetDevResource(int dev, struct resource *r, u32 kind) { (void)dev; CALL; *r = (struct resource){.kind = kind, .sms = 10}; return 0; }
CUresult cuDevSmResourceSplitByCount(struct resource *parts, u32 *n, const struct resource *whole, struct resource *rest, u32 flags, u32 sms)
{
	(void)n, (void)flags;
	CALL;
	sms = (sms + 1) / 2 * 2;
	*parts = (struct resource){.kind = 1, .sms = sms};
	*rest = (struct resource){.kind = 1, .sms = whole->sms - sms};
	return 0;
}
CUresult cuDevResourceGenerateDesc(handle *d, const struct resource *r, u32 n) { (void)r, (void)n; CALL; *d = 0xd0; return 0; }
CUresult cuGreenCtxCreate(handle *green, handle d, int dev, u32 flags) { (void)d, (void)dev, (void)flags; *green = GREEN; TAKE; }
CUresult cuGreenCtxDestroy(handle green) { (void)green; GIVE; }
CUresult cuGreenCtxStreamCreate(handle *s, handle green, u32 flags, int priority)
{
	(void)green, (void)flags, (void)priority;
	CALL;
	*s = 0x51;
	state->partitioned++;
	return hold(0, 1);
}

/* Symbols that package cuda requires and the engine does not call. */
#define UNUSED(name) CUresult name(void) { call(#name); return 801; }
UNUSED(cuModuleGetGlobal_v2) UNUSED(cuFuncGetAttribute)
UNUSED(cuMemcpyDtoHAsync_v2) UNUSED(cuMemcpyDtoDAsync_v2) UNUSED(cuMemsetD8Async)
UNUSED(cuStreamWaitEvent) UNUSED(cuStreamBeginCapture_v2) UNUSED(cuStreamEndCapture)
UNUSED(cuEventCreate) UNUSED(cuEventDestroy_v2) UNUSED(cuEventRecord) UNUSED(cuEventQuery) UNUSED(cuEventSynchronize) UNUSED(cuEventElapsedTime)
UNUSED(cuGraphDestroy) UNUSED(cuGraphGetNodes) UNUSED(cuGraphNodeGetType) UNUSED(cuGraphInstantiateWithFlags)
UNUSED(cuCtxFromGreenCtx) UNUSED(cuGraphExecKernelNodeSetParams_v2) UNUSED(cuGraphLaunch) UNUSED(cuGraphExecDestroy)
