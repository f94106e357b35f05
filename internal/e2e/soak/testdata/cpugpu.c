/*
 * Fake driver with GPUs whose resident kernel runs on a CPU thread: the kernels' own code serves
 * the mailbox. The kernel pauses while the first word of STATE's second half is not 0, like a GPU
 * that runs another process.
 */
#define _GNU_SOURCE
#define cuLaunchKernel launch_patch
#define cuStreamQuery query_any
#define cuStreamCreateWithPriority create_any
#include "../../../../dataplane/gpu/testdata/fakecuda.c"
#undef cuLaunchKernel
#undef cuStreamQuery
#undef cuStreamCreateWithPriority

#define main shim_main
#include "../../../../dataplane/gpu/testdata/shim.c"
#undef main

#include "../../../../dataplane/gpu/kernel/mailbox.h"

#include <pthread.h>
#include <time.h>

enum { STREAMS = 256, MOST_SLOTS = 64, SLEEP_AFTER = 200, MOST_BATCHES = 16 };
static u32 streams, busy[STREAMS];

CUresult cuStreamCreateWithPriority(handle *s, u32 flags, int priority)
{
	CUresult result = create_any(s, flags, priority);
	*s = 1 + __atomic_fetch_add(&streams, 1, __ATOMIC_SEQ_CST);
	return result;
}

CUresult cuStreamQuery(handle s)
{
	CUresult result = query_any(s);
	return !result && __atomic_load_n(&busy[s], __ATOMIC_ACQUIRE) ? 600 : result;
}

static int is_paused(void) { return __atomic_load_n((u32 *)((char *)state + 2048), __ATOMIC_ACQUIRE) != 0; }

/* Processes all batches of a tile with a header. */
static void process_tile(const struct mailbox *m, uint8_t *slot, u32 number, u32 header)
{
	const uint64_t *words = (const uint64_t *)(slot + m->descriptors);
	struct result *out = (struct result *)(slot + m->results);
	struct tile tile = tile_of(m, slot, number, header, 0);
	struct tables t = m->tables;
	struct snapshot snapshot = {0, NULL, NULL};

	t.hot = NULL;
	for (u32 i = 0; i < tile.packets; i++) {
		u32 in = i % tile.batch_packets;
		uint64_t w = words[i / tile.batch_packets * 4 * DESC_LINE_LANES + in / DESC_LINE_FRAMES * DESC_LINE_LANES + 1 + in % DESC_LINE_FRAMES];
		struct frame f;
		memcpy(&f, &w, sizeof f);
		if (i % SHARERS == 0)
			snapshot = take_snapshot(&t);
		out[i] = run(t, snapshot, f, tile.umem);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (u32 i = 0; i < MOST_BATCHES; i++)
		__atomic_store_n((u32 *)slot + i, number, __ATOMIC_RELEASE);
}

struct kernel {
	struct mailbox m;
	handle stream;
};

static void *resident(void *arg)
{
	struct kernel *k = arg;
	u32 number[MOST_SLOTS], idle = 0;

	for (u32 i = 0; i < k->m.block_count; i++)
		number[i] = *(const u32 *)(k->m.slots + (size_t)i * k->m.slot_bytes + FIRST_TILE);
	while (__atomic_load_n(k->m.control, __ATOMIC_ACQUIRE) != STOP) {
		if (is_paused() || idle > SLEEP_AFTER) {
			struct timespec pause = {0, 20000};
			nanosleep(&pause, NULL);
		}
		if (is_paused())
			continue;
		idle++;
		for (u32 i = 0; i < k->m.block_count; i++) {
			uint8_t *slot = k->m.slots + (size_t)i * k->m.slot_bytes;
			uint64_t doorbell = __atomic_load_n((uint64_t *)(slot + k->m.descriptors), __ATOMIC_ACQUIRE);
			if ((u32)doorbell != number[i])
				continue;
			idle = 0;
			process_tile(&k->m, slot, number[i]++, doorbell >> 32);
		}
	}
	__atomic_store_n(&busy[k->stream], 0, __ATOMIC_RELEASE);
	free(k);
	return NULL;
}

CUresult cuLaunchKernel(handle f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, handle stream, void **params, void **extra)
{
	pthread_t thread;
	struct kernel *k;

	if (f != RESIDENT)
		return launch_patch(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
	if (gx > MOST_SLOTS + 1 || !(k = malloc(sizeof *k)))
		return 2;
	memcpy(&k->m, params[0], sizeof k->m);
	k->stream = stream;
	__atomic_store_n(&busy[stream], 1, __ATOMIC_RELEASE);
	if (pthread_create(&thread, NULL, resident, k))
		return 2;
	pthread_detach(thread);
	return 0;
}

static __attribute__((constructor)) void enable_copies(void) { state->copies = 1; }
