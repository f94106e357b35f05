/*
 * A driver with GPUs whose resident kernel runs on a thread of the CPU: the kernels' own
 * code decides on packets, by the mailbox. While the first word of STATE's second half is
 * not 0, it stands still, as a GPU that another process has.
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

#include <pthread.h>
#include <time.h>

/* As mailbox.h, which needs a device. */
#define UNIT_FRAMES 7
#define UNITS 4
#define STOP 0xffffffffu
#define FLAGS 0x70000000u
#define DONE 16
struct mailbox {
	uint8_t *slots;
	uint32_t slot_bytes, results, quads, heads, halves, answers, umem_bytes;
	uint8_t *umem;
	struct tables tables;
};

enum { STREAMS = 256, MOST_SLOTS = 64, REST_AFTER = 200 };
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

static int stands_still(void) { return __atomic_load_n((u32 *)((char *)state + 2048), __ATOMIC_ACQUIRE) != 0; }

/* Works off a chunk of n packets. */
static void work_off(const struct mailbox *m, uint8_t *slot, u32 seq, u32 n)
{
	const uint64_t *words = (const uint64_t *)(slot + m->quads);
	struct result *out = (struct result *)(slot + m->results);
	struct tables t = m->tables;
	struct snapshot snapshot = {0, NULL, NULL};

	t.near = NULL;
	for (u32 i = 0; i < n; i++) {
		uint64_t w = words[i / UNIT_FRAMES * (UNIT_FRAMES + 1) + 1 + i % UNIT_FRAMES];
		struct frame f;
		memcpy(&f, &w, sizeof f);
		if (i % SHARERS == 0)
			snapshot = take_snapshot(&t);
		out[i] = run(t, snapshot, f, m->umem);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (u32 i = 0; i < DONE; i++)
		__atomic_store_n((u32 *)slot + i, seq, __ATOMIC_RELEASE);
}

struct kernel {
	struct mailbox m;
	u32 slots;
	handle stream;
};

static void *resident(void *arg)
{
	struct kernel *k = arg;
	u32 seq[MOST_SLOTS], left = k->slots, idle = 0;

	for (u32 i = 0; i < k->slots; i++)
		seq[i] = 1;
	while (left) {
		if (stands_still() || idle > REST_AFTER) {
			struct timespec rest = {0, 20000};
			nanosleep(&rest, NULL);
		}
		if (stands_still())
			continue;
		idle++;
		for (u32 i = 0; i < k->slots; i++) {
			uint8_t *slot = k->m.slots + (size_t)i * k->m.slot_bytes;
			uint64_t head = __atomic_load_n((uint64_t *)(slot + k->m.quads), __ATOMIC_ACQUIRE);
			if (!seq[i] || (u32)head != seq[i])
				continue;
			idle = 0;
			if (head >> 32 == STOP) {
				seq[i] = 0;
				left--;
				continue;
			}
			work_off(&k->m, slot, seq[i]++, head >> 32 & ~FLAGS);
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
	if (gx > MOST_SLOTS || !(k = malloc(sizeof *k)))
		return 2;
	memcpy(&k->m, params[0], sizeof k->m);
	k->slots = gx;
	k->stream = stream;
	__atomic_store_n(&busy[stream], 1, __ATOMIC_RELEASE);
	if (pthread_create(&thread, NULL, resident, k))
		return 2;
	pthread_detach(thread);
	return 0;
}

static __attribute__((constructor)) void have_memory_copied(void) { state->copies = 1; }
