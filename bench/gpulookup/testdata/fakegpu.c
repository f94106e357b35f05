/* Fake driver that runs the benchmark's kernels on the host. A launch returns when the kernel has
 * run; each block of a resident kernel is a host thread, which runs the block's threads in turn.
 *
 * FAULT names a kernel that returns a wrong result; FAULT "none" runs no kernel. */
#include <pthread.h>

/* Everything but kernel execution comes from package cuda's fake driver. */
#define TWELVE_ZERO /* without kernel parameter checks */
#define cuModuleLoadDataEx other_cuModuleLoadDataEx
#define cuModuleGetFunction other_cuModuleGetFunction
#define cuLaunchKernel other_cuLaunchKernel
#define cuStreamSynchronize other_cuStreamSynchronize
#define cuStreamQuery other_cuStreamQuery
#include "../../../cuda/testdata/fakecuda.c"
#undef cuModuleLoadDataEx
#undef cuModuleGetFunction
#undef cuLaunchKernel
#undef cuStreamSynchronize
#undef cuStreamQuery

#include "../bench.cu"

#ifndef FAULT
#define FAULT ""
#endif

static const char *const kernels[] = {"lookup4", "lookup6", "resident4", "resident6", "gather", "read_words"};
enum { LOOKUP4, LOOKUP6, RESIDENT4, RESIDENT6, GATHER, READ_WORDS, KERNELS };

CUresult cuModuleLoadDataEx(handle *module, const char *image, u32 n, const u32 *options, void **values)
{
	(void)n, (void)options, (void)values;
	for (int i = LOOKUP4; i <= LOOKUP6; i++) { /* the PTX has these kernels, too */
		char entry[64];
		snprintf(entry, sizeof entry, ".entry %s(", kernels[i]);
		if (!strstr(image, entry))
			return 218;
	}
	*module = 1;
	return 0;
}

CUresult cuModuleGetFunction(handle *f, handle module, const char *name)
{
	(void)module;
	for (int i = 0; i < KERNELS; i++)
		if (!strcmp(name, kernels[i])) {
			*f = i;
			return 0;
		}
	return 500;
}

/* Corrupts the first result of the kernel that FAULT names. */
static void spoil(handle f, struct columns c, u32 first)
{
	if (!strcmp(FAULT, kernels[f]))
		c.hops[first] ^= 1;
}

/* A block of a resident kernel. */
struct resident_block {
	struct columns c;
	const uint8_t *doorbell;
	uint8_t *done;
	u32 size;
	handle f;
};

static struct resident_block residents[64];
static pthread_t running[64];
static u32 resident_blocks;

static void *stay(void *arg)
{
	struct resident_block *b = arg;
	gridDim.x = 1;
	for (u32 seq = 1;; seq++) {
		uint64_t bell;
		do
			bell = host_load64((const uint64_t *)b->doorbell);
		while ((u32)bell != seq);
		u32 chunk = (u32)(bell >> 32);
		if (chunk == STOP)
			return 0;
		for (threadIdx.x = 0; threadIdx.x < RESIDENT_THREADS; threadIdx.x++)
			look_up(&b->c, b->f == RESIDENT6, chunk * b->size, b->size, 0, 1, RESIDENT_THREADS);
		spoil(b->f, b->c, chunk * b->size);
		host_store32((uint32_t *)b->done, seq);
	}
}

CUresult cuLaunchKernel(handle f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, handle stream, void **params, void **extra)
{
	u32 expected = f == RESIDENT4 || f == RESIDENT6 ? RESIDENT_THREADS : THREADS;
	(void)shared, (void)stream;
	if (bx != expected || by * bz * gy * gz != 1 || gx == 0 || extra)
		return 1;
	if (!strcmp(FAULT, "none"))
		return 0;
	if (f == RESIDENT4 || f == RESIDENT6) {
		for (resident_blocks = 0; resident_blocks < gx; resident_blocks++) {
			struct resident_block *b = &residents[resident_blocks];
			*b = (struct resident_block){.c = *(struct columns *)params[0], .size = *(u32 *)params[1], .f = f};
			b->doorbell = *(uint8_t **)params[2] + resident_blocks * LINE_BYTES;
			b->done = *(uint8_t **)params[3] + resident_blocks * LINE_BYTES;
			if (pthread_create(&running[resident_blocks], 0, stay, b))
				return 1;
		}
		return 0;
	}
	gridDim.x = gx;
	for (blockIdx.x = 0; blockIdx.x < gx; blockIdx.x++)
		for (threadIdx.x = 0; threadIdx.x < bx; threadIdx.x++)
			switch (f) {
			case LOOKUP4: lookup4(*(struct columns *)params[0], *(u32 *)params[1], *(u32 *)params[2]); break;
			case LOOKUP6: lookup6(*(struct columns *)params[0], *(u32 *)params[1], *(u32 *)params[2]); break;
			case GATHER: gather(*(u32 **)params[0], 1, *(u32 **)params[2]); break; /* one iteration is enough */
			case READ_WORDS: read_words(*(u32 **)params[0], *(u32 *)params[1], *(u32 **)params[2]); break;
			}
	if (f == LOOKUP4 || f == LOOKUP6)
		spoil(f, *(struct columns *)params[0], *(u32 *)params[1]);
	return 0;
}

CUresult cuStreamSynchronize(handle s) { (void)s; return 0; }

CUresult cuStreamQuery(handle s)
{
	(void)s;
	while (resident_blocks > 0)
		pthread_join(running[--resident_blocks], 0);
	return 0;
}
