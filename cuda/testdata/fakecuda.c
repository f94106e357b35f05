/*
 * fakecuda is a driver without a GPU. It logs its calls and injects failures. Device memory is
 * host memory. The one kernel, "add", takes (pointer a, pointer b, pointer sum, uint32_t n) and
 * completes in the launch.
 *
 * Macros: OLD is CUDA 11.8; TWELVE_ZERO is CUDA 12.0 without the optional functions; BROKEN lacks
 * some required functions and cuGetProcAddress; NO_LOOKUP lacks cuGetProcAddress alone; GPUS is the
 * number of GPUs, COMPUTE_MODE their mode, MPS 1 if they are shared by MPS, PROFILE the end of their
 * names; PEERS 0 if GPUs have no access to each other's memory; TWELVE_FOUR lacks what is newer than CUDA 12.4.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef uintptr_t handle, ptr;
typedef uint32_t u32;

#if defined(OLD)
#define VERSION 11080
#elif defined(TWELVE_ZERO)
#define VERSION 12000
#elif defined(TWELVE_FOUR)
#define VERSION 12040
#else
#define VERSION 12080
#endif

/* State that the tests read and set. */
static char calls[1 << 16], failing[64];
static int failure;
void fake_copy_log(char *to) { strcpy(to, calls); }
void fake_reset(void) { calls[0] = failing[0] = 0; }
void fake_fail(const char *name, int result) { snprintf(failing, sizeof failing, "%s", name); failure = result; }

/* call logs a call and returns its result. */
static int call(const char *name, const char *format, ...) {
	size_t used = strlen(calls), left = sizeof calls - used;
	if (left > 256) { /* a full log stops: allocation tests call a thousand times */
		va_list args;
		used += snprintf(calls + used, left, "%s(", name);
		va_start(args, format);
		vsnprintf(calls + used, left - 128, format, args);
		va_end(args);
		used = strlen(calls); /* the image of a module is cut */
		snprintf(calls + used, 4, ")\n");
	}
	return strcmp(name, failing) ? 0 : failure;
}
#define CALL(...) do { int result_ = call(__func__, __VA_ARGS__); if (result_) return result_; } while (0)

static const struct { int result; const char *name, *text; } results[] = {
	{1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
	{218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
	{600, "CUDA_ERROR_NOT_READY", "device not ready"},
	{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};
static int describe(int result, int text, const char **out) {
	for (size_t i = 0; i < sizeof results / sizeof *results; i++)
		if (results[i].result == result) { *out = text ? results[i].text : results[i].name; return 0; }
	return 1;
}
CUresult cuGetErrorName(int result, const char **name) { return describe(result, 0, name); }
CUresult cuGetErrorString(int result, const char **text) { return describe(result, 1, text); }

CUresult cuInit(u32 flags) { CALL("%u, %s", flags, getenv("CUDA_MODULE_LOADING")); return 0; }
CUresult cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
#ifndef GPUS
#define GPUS 2
#endif
CUresult cuDeviceGetCount(int *n) { CALL(""); *n = GPUS; return 0; }
CUresult cuDeviceGet(int *dev, int ordinal) { *dev = ordinal; return 0; }
#ifndef PROFILE
#define PROFILE ""
#endif
CUresult cuDeviceGetName(char *name, int size, int dev) { snprintf(name, size, "Fake %d%s", dev, PROFILE); return 0; }
CUresult cuDeviceGetPCIBusId(char *id, int size, int dev) { snprintf(id, size, "0000:%02X:00.0", 0x1a + dev); return 0; }
CUresult cuDeviceTotalMem_v2(size_t *bytes, int dev) { *bytes = (size_t)(dev + 1) << 33; return 0; }
#ifndef COMPUTE_MODE
#define COMPUTE_MODE 0
#endif
#ifndef MPS
#define MPS 0
#endif
#ifndef PEERS
#define PEERS 1
#endif
CUresult cuDeviceGetAttribute(int *value, int attribute, int dev) {
	static const int values[256] = {[20] = COMPUTE_MODE, [133] = MPS, [13] = 1980000, [16] = 132, [19] = 1, [38] = 52428800, [40] = 3, [75] = 9, [76] = 0, [99] = 1, [134] = 1};
	(void)dev;
	if (attribute > 132 && VERSION < 12020) return 1;
	*value = values[attribute];
	return 0;
}

CUresult cuDeviceGetP2PAttribute(int *value, int attribute, int dev, int peer) { CALL("%d, %d, %d", attribute, dev, peer); *value = PEERS && dev != peer; return 0; }
CUresult cuCtxEnablePeerAccess(handle peer, u32 flags) { CALL("%#lx, %u", peer, flags); return 0; }

CUresult cuDevicePrimaryCtxRetain(handle *ctx, int dev) { CALL("%d", dev); *ctx = 0xc0 + dev; return 0; }
CUresult cuDevicePrimaryCtxRelease_v2(int dev) { CALL("%d", dev); return 0; }
CUresult cuCtxSetCurrent(handle ctx) { CALL("%#lx", ctx); return 0; }
CUresult cuCtxPushCurrent_v2(handle ctx) { CALL("%#lx", ctx); return 0; }
CUresult cuCtxPopCurrent_v2(handle *ctx) { CALL(""); *ctx = 0; return 0; }
CUresult cuCtxSynchronize(void) { CALL(""); return 0; }
CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }

CUresult cuModuleLoadDataEx(handle *module, const char *image, u32 n, const u32 *options, void **values) {
	CALL("\"%s\", %u", image, n);
	for (u32 i = 0; i + 1 < n; i++) {
		size_t size = (size_t)values[i + 1];
		if (options[i] == 3) snprintf(values[i], size, "ptxas info: Used 12 registers");
		if (options[i] == 5 && strstr(image, "bad")) snprintf(values[i], size, "ptxas line 7; error: unknown symbol\nptxas fatal: aborted\n");
	}
	if (strstr(image, "bad")) return 218;
	*module = 0x30;
	return 0;
}
CUresult cuModuleUnload(handle module) { CALL("%#lx", module); return 0; }
CUresult cuModuleGetFunction(handle *f, handle module, const char *name) {
	CALL("%#lx, \"%s\"", module, name);
	if (strcmp(name, "add")) return 500;
	*f = 0xf0;
	return 0;
}
CUresult cuModuleGetGlobal_v2(ptr *at, size_t *bytes, handle module, const char *name) {
	CALL("%#lx, \"%s\"", module, name);
	*at = 0x7000; *bytes = 48;
	return 0;
}
CUresult cuFuncGetAttribute(int *value, int attribute, handle f) { CALL("%d, %#lx", attribute, f); *value = 24; return 0; }
CUresult cuFuncSetAttribute(handle f, int attribute, int value) { CALL("%#lx, %d, %d", f, attribute, value); return 0; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, handle f, int threads, size_t shared) {
	CALL("%#lx, %d, %zu", f, threads, shared);
	*blocks = 2048 / threads;
	return 0;
}
#ifndef TWELVE_ZERO
CUresult cuFuncGetParamInfo(handle f, size_t i, size_t *offset, size_t *size) {
	(void)f;
	if (i > 3) return 1;
	*offset = 8 * i; *size = i < 3 ? 8 : 4;
	return 0;
}
#endif

static void add(void **params) {
	const u32 *a = *(u32 **)params[0], *b = *(u32 **)params[1];
	u32 *sum = *(u32 **)params[2], n = *(u32 *)params[3];
	for (u32 i = 0; i < n; i++) sum[i] = a[i] + b[i];
}
static int capturing;
static void *graph[4]; /* parameters of the captured launch */
#ifndef BROKEN
CUresult cuLaunchKernel(handle f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, handle stream, void **params, void **extra) {
	CALL("%#lx, %u %u %u, %u %u %u, %u, %#lx, %s", f, gx, gy, gz, bx, by, bz, shared, stream, extra ? "extra" : "params");
	if (!capturing) { add(params); return 0; }
	static ptr words[4];
	for (int i = 0; i < 4; i++) { /* like the driver, keep values, not addresses */
		memcpy(&words[i], params[i], i < 3 ? 8 : 4);
		graph[i] = &words[i];
	}
	return 0;
}
CUresult cuMemAlloc_v2(ptr *at, size_t n) { CALL("%zu", n); *at = (ptr)aligned_alloc(256, (n + 255) & ~255ul); return 0; }
#endif
CUresult cuMemFree_v2(ptr at) { CALL(""); free((void *)at); return 0; }
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) { *unused = 1000; *total = 4000; return 0; }
CUresult cuMemHostRegister_v2(void *host, size_t n, u32 flags) { (void)host; CALL("%zu, %u", n, flags); return 0; }
CUresult cuMemHostUnregister(void *host) { (void)host; CALL(""); return 0; }
CUresult cuMemHostGetDevicePointer_v2(ptr *at, void *host, u32 flags) { CALL("%u", flags); *at = (ptr)host; return 0; }
static int copy(ptr to, ptr from, size_t n) { memcpy((void *)to, (void *)from, n); return 0; }
CUresult cuMemcpyHtoD_v2(ptr to, ptr from, size_t n) { CALL("%zu", n); return copy(to, from, n); }
CUresult cuMemcpyDtoH_v2(ptr to, ptr from, size_t n) { CALL("%zu", n); return copy(to, from, n); }
CUresult cuMemcpyHtoDAsync_v2(ptr to, ptr from, size_t n, handle s) { CALL("%zu, %#lx", n, s); return copy(to, from, n); }
CUresult cuMemcpyDtoHAsync_v2(ptr to, ptr from, size_t n, handle s) { CALL("%zu, %#lx", n, s); return copy(to, from, n); }
CUresult cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t n, handle s) { CALL("%zu, %#lx", n, s); return copy(to, from, n); }
CUresult cuMemsetD8Async(ptr to, uint8_t value, size_t n, handle s) { CALL("%#x, %zu, %#lx", value, n, s); memset((void *)to, value, n); return 0; }
CUresult cuMemsetD32Async(ptr to, u32 value, size_t n, handle s) {
	CALL("%#x, %zu, %#lx", value, n, s);
	while (n--) ((u32 *)to)[n] = value;
	return 0;
}

CUresult cuStreamCreateWithPriority(handle *s, u32 flags, int priority) { CALL("%u, %d", flags, priority); *s = 0x50; return 0; }
CUresult cuStreamDestroy_v2(handle s) { CALL("%#lx", s); return 0; }
CUresult cuStreamQuery(handle s) { CALL("%#lx", s); return 0; }
CUresult cuStreamSynchronize(handle s) { CALL("%#lx", s); return 0; }
CUresult cuStreamWaitEvent(handle s, handle e, u32 flags) { CALL("%#lx, %#lx, %u", s, e, flags); return 0; }
CUresult cuStreamBeginCapture_v2(handle s, int mode) { CALL("%#lx, %d", s, mode); capturing = 1; return 0; }
CUresult cuStreamEndCapture(handle s, handle *g) { CALL("%#lx", s); capturing = 0; *g = 0x60; return 0; }
CUresult cuEventCreate(handle *e, u32 flags) { CALL("%u", flags); *e = 0xe0; return 0; }
CUresult cuEventDestroy_v2(handle e) { CALL("%#lx", e); return 0; }
CUresult cuEventRecord(handle e, handle s) { CALL("%#lx, %#lx", e, s); return 0; }
CUresult cuEventQuery(handle e) { CALL("%#lx", e); return 0; }
CUresult cuEventSynchronize(handle e) { CALL("%#lx", e); return 0; }
CUresult cuEventElapsedTime(float *ms, handle start, handle end) { CALL("%#lx, %#lx", start, end); *ms = 0.25f; return 0; }

/* The one graph: a copy, and the launch that was captured. */
CUresult cuGraphDestroy(handle g) { CALL("%#lx", g); return 0; }
CUresult cuGraphGetNodes(handle g, handle *nodes, size_t *n) {
	(void)g;
	if (nodes) { nodes[0] = 0x71; nodes[1] = 0x72; }
	*n = 2;
	return 0;
}
CUresult cuGraphNodeGetType(handle node, int *type) { *type = node == 0x71 ? 1 : 0; return 0; }
CUresult cuGraphInstantiateWithFlags(handle *exec, handle g, unsigned long long flags) { CALL("%#lx, %llu", g, flags); *exec = 0x80; return 0; }
struct kernel_node { handle f; u32 grid[3], block[3], shared; void **params, **extra; handle kernel, ctx; };
CUresult cuGraphExecKernelNodeSetParams_v2(handle exec, handle node, const struct kernel_node *k) {
	CALL("%#lx, %#lx, %#lx, %u %u %u, %u %u %u, %u", exec, node, k->f, k->grid[0], k->grid[1], k->grid[2],
		k->block[0], k->block[1], k->block[2], k->shared);
	if (k->extra || k->kernel || k->ctx) return 1;
	for (int i = 0; i < 4; i++) memcpy(graph[i], k->params[i], i < 3 ? 8 : 4);
	return 0;
}
CUresult cuGraphLaunch(handle exec, handle s) { CALL("%#lx, %#lx", exec, s); add(graph); return 0; }
CUresult cuGraphExecDestroy(handle exec) { CALL("%#lx", exec); return 0; }

#ifndef TWELVE_ZERO
struct resource { u32 kind; char pad[92]; u32 sms; char rest[44]; };
_Static_assert(sizeof(struct resource) == 144, "CUdevResource of CUDA 12.4");
CUresult cuDeviceGetDevResource(int dev, struct resource *r, u32 kind) { CALL("%d, %u", dev, kind); *r = (struct resource){.kind = kind, .sms = 132}; return 0; }
CUresult cuDevSmResourceSplitByCount(struct resource *parts, u32 *n, const struct resource *whole, struct resource *rest, u32 flags, u32 sms) {
	CALL("%u, %u, %u, %u", *n, whole->sms, flags, sms);
	sms = (sms + 7) / 8 * 8;
	if (*n > whole->sms / sms) *n = whole->sms / sms;
	for (u32 i = 0; i < *n; i++) parts[i] = (struct resource){.kind = 1, .sms = sms};
	*rest = (struct resource){.kind = 1, .sms = whole->sms - *n * sms};
	return 0;
}
CUresult cuDevResourceGenerateDesc(handle *d, const struct resource *r, u32 n) { CALL("%u, %u", r->sms, n); *d = 0xd0; return 0; }
CUresult cuGreenCtxCreate(handle *green, handle d, int dev, u32 flags) { CALL("%#lx, %d, %u", d, dev, flags); *green = 0x90; return 0; }
CUresult cuGreenCtxDestroy(handle green) { CALL("%#lx", green); return 0; }
CUresult cuCtxFromGreenCtx(handle *ctx, handle green) { CALL("%#lx", green); *ctx = green + 1; return 0; }
#ifndef TWELVE_FOUR
CUresult cuGreenCtxStreamCreate(handle *s, handle green, u32 flags, int priority) { CALL("%#lx, %u, %d", green, flags, priority); *s = 0x51; return 0; }
#endif
#endif

#if !defined(NO_LOOKUP) && !defined(BROKEN)
/* Knows one function alone, in the version that came with 3.2; the others are for dlsym. */
static CUresult alloc_by_lookup(ptr *at, size_t n) { CALL("%zu", n); *at = (ptr)aligned_alloc(256, (n + 255) & ~255ul); return 0; }
CUresult cuGetProcAddress_v2(const char *name, void **fn, int abi, uint64_t flags, int *status) {
	int known = !strcmp(name, "cuMemAlloc") && abi == 3020 && flags == 0;
	*fn = known ? (void *)alloc_by_lookup : 0;
	*status = !known;
	return known ? 0 : 500;
}
#endif
