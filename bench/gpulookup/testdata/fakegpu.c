/*
 * A driver without a GPU that has the benchmark's kernels: they run on the host, and
 * what is launched has run when the launch returns. Of a resident kernel each block is a
 * thread of the host, that does what the block's threads do one after another.
 *
 * Compiled with FAULT, the kernel of that name is wrong; FAULT "none" has no kernel run.
 */
#include <pthread.h>

/* All but what kernels are is as package cuda's tests have it. */
#define TWELVE_ZERO /* without looking at the parameters of kernels */
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
	for (int i = LOOKUP4; i <= LOOKUP6; i++) { /* the PTX has the kernels, too */
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

/* Spoils the first result of a kernel that is to be wrong. */
static void spoil(handle f, struct columns c, u32 first)
{
	if (!strcmp(FAULT, kernels[f]))
		c.hops[first] ^= 1;
}

/* A block that stays. */
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
	blocks = 1;
	for (u32 turn = 1;; turn++) {
		uint64_t rung;
		do
			rung = host_load64((const uint64_t *)b->doorbell);
		while ((u32)rung != turn);
		u32 chunk = (u32)(rung >> 32);
		if (chunk == STOP)
			return 0;
		for (thread = 0; thread < RESIDENT_THREADS; thread++)
			look_up(&b->c, b->f == RESIDENT6, chunk * b->size, b->size, 0, 1, RESIDENT_THREADS);
		spoil(b->f, b->c, chunk * b->size);
		host_store32((uint32_t *)b->done, turn);
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
	blocks = gx;
	for (block = 0; block < gx; block++)
		for (thread = 0; thread < bx; thread++)
			switch (f) {
			case LOOKUP4: lookup4(*(struct columns *)params[0], *(u32 *)params[1], *(u32 *)params[2]); break;
			case LOOKUP6: lookup6(*(struct columns *)params[0], *(u32 *)params[1], *(u32 *)params[2]); break;
			case GATHER: gather(*(u32 **)params[0], 1, *(u32 **)params[2]); break; /* once will do */
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
