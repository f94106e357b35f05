/* Fake driver that runs the kernels' code on the host: a thread executes copies, kernels and events of all
 * streams in the order of submission, after the calls have returned. A block of the resident kernel is a thread.
 *
 * FAULT "wrong KERNEL" changes a byte that the kernel writes for one packet, "later KERNEL" from the 2,000th
 * launch on; "launch" fails launches; "fault" fails all later calls. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <pthread.h>
#include <sched.h>
#include <time.h>

/* Everything but streams, events, graphs and kernels comes from package cuda's fake driver. */
#define TWELVE_ZERO /* without kernel parameter checks */
#define cuModuleLoadDataEx other_cuModuleLoadDataEx
#define cuModuleGetFunction other_cuModuleGetFunction
#define cuLaunchKernel other_cuLaunchKernel
#define cuMemcpyHtoDAsync_v2 other_cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync_v2 other_cuMemcpyDtoHAsync_v2
#define cuStreamQuery other_cuStreamQuery
#define cuStreamSynchronize other_cuStreamSynchronize
#define cuStreamBeginCapture_v2 other_cuStreamBeginCapture_v2
#define cuStreamEndCapture other_cuStreamEndCapture
#define cuCtxSynchronize other_cuCtxSynchronize
#define cuEventCreate other_cuEventCreate
#define cuEventRecord other_cuEventRecord
#define cuEventQuery other_cuEventQuery
#define cuEventElapsedTime other_cuEventElapsedTime
#define cuGraphGetNodes other_cuGraphGetNodes
#define cuGraphInstantiateWithFlags other_cuGraphInstantiateWithFlags
#define cuGraphLaunch other_cuGraphLaunch
#define cuGraphDestroy other_cuGraphDestroy
#define cuGraphExecDestroy other_cuGraphExecDestroy
#include "../../../cuda/testdata/fakecuda.c"
#undef cuModuleLoadDataEx
#undef cuModuleGetFunction
#undef cuLaunchKernel
#undef cuMemcpyHtoDAsync_v2
#undef cuMemcpyDtoHAsync_v2
#undef cuStreamQuery
#undef cuStreamSynchronize
#undef cuStreamBeginCapture_v2
#undef cuStreamEndCapture
#undef cuCtxSynchronize
#undef cuEventCreate
#undef cuEventRecord
#undef cuEventQuery
#undef cuEventElapsedTime
#undef cuGraphGetNodes
#undef cuGraphInstantiateWithFlags
#undef cuGraphLaunch
#undef cuGraphDestroy
#undef cuGraphExecDestroy

/* The kernels' headers, compiled for the host. */
#define WARP_SIZE 32
#include "../../../dataplane/gpu/kernel/device.h"
struct words4 {
	uint32_t w[4];
};
static uint64_t host_load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static void host_store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
static struct words4 host_load128(const void *p) { return *(const struct words4 *)__builtin_assume_aligned(p, 16); }
static void host_store128(void *p, struct words4 v) { *(struct words4 *)__builtin_assume_aligned(p, 16) = v; }
#include "../copies.h"
#include "../fused.h"

static const char *const kernels[] = {"copies_1_look_up", "copies_2_rewrite", "copies_3_gather", "fused", "resident_block"};
enum { LOOK_UP, REWRITE, GATHER, FUSED, RESIDENT, KERNELS };

/* An operation in a stream. */
struct op {
	enum { COPY, LAUNCH, EVENT } kind;
	ptr to, from; /* COPY */
	size_t n;
	u32 kernel, blocks; /* LAUNCH */
	union {
		struct copies copies;
		struct fused fused;
	} params;
	handle event; /* EVENT */
};

enum { QUEUE = 4096, GRAPH = 8, GRAPHS = 4096, EVENTS = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct op queue[QUEUE];
static uint64_t enqueued, executed;

static struct {
	uint64_t recorded, done; /* counts */
	int64_t ns;              /* when it was executed */
} events[EVENTS];
static handle event_count;

static struct {
	struct op ops[GRAPH];
	u32 n;
} graphs[GRAPHS];
static u32 graph_count;
static handle recording; /* graph that is captured; 0: none */

static u32 launched[KERNELS];

/* Returns whether this launch of a kernel is to be wrong. */
static int is_wrong(u32 kernel)
{
	u32 n = ++launched[kernel];
	const char *name = strchr(FAULT, ' ');

	if (!name || strcmp(name + 1, kernels[kernel]))
		return 0;
	return !strncmp(FAULT, "wrong", 5) || n >= 2000;
}

static void run_fused(const struct fused *f, u32 packets, u32 kernel)
{
	struct fused_scratch scratch;

	for (u32 first = 0; first < packets; first += WARP_SIZE) {
		struct snapshot s = take_snapshot(&f->tables);
		for (u32 lane = 0; lane < WARP_SIZE; lane++)
			fused_store_frame(&scratch, lane, fused_load_frame(f, first, lane));
		for (u32 lane = 0; lane < WARP_SIZE; lane++)
			fused_read_headers(f, &scratch, first, lane);
		for (u32 lane = 0; lane < WARP_SIZE; lane++)
			fused_decide(f, &scratch, s, first, lane);
		for (u32 lane = 0; lane < WARP_SIZE; lane++)
			fused_write_headers(f, &scratch, lane);
	}
	if (is_wrong(kernel))
		f->umem[f->frames[f->n - 1].addr + 5] ^= 1;
	__atomic_store_n(f->done, f->seq, __ATOMIC_RELEASE);
}

/* A block of the resident kernel. */
struct block {
	struct resident r;
	u32 number;
};

enum { BLOCKS = 16 };

static pthread_t residents[BLOCKS];
static struct block resident_blocks[BLOCKS];
static u32 resident_count;

static void run_anywhere(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof all);
	sched_setaffinity(0, sizeof all, &all); /* the thread that submits is pinned, and polls */
}

static void *stay(void *arg)
{
	const struct block *b = arg;
	const uint8_t *slot = b->r.slots + (uint64_t)b->number * b->r.slot_bytes;

	run_anywhere();
	for (u32 seq = 1;; seq++) {
		uint64_t doorbell;
		while ((u32)(doorbell = __atomic_load_n((const uint64_t *)(slot + RESIDENT_DOORBELL), __ATOMIC_ACQUIRE)) != seq)
			sched_yield();
		u32 n = (u32)(doorbell >> 32);
		if (n == RESIDENT_STOP)
			return 0;
		struct fused f = resident_chunk(&b->r, b->number, seq, n);
		for (u32 i = 0; i < n; i++)
			if (f.frames[i].port != resident_tag(seq))
				abort();
		run_fused(&f, n, RESIDENT);
	}
}

static void run(const struct op *o)
{
	const struct copies *c = &o->params.copies;

	if (o->kernel == FUSED) {
		run_fused(&o->params.fused, o->blocks * LADDER_THREADS, FUSED);
		return;
	}
	for (u32 i = 0; i < o->blocks * LADDER_THREADS; i++)
		if (i < c->n)
			switch (o->kernel) {
			case LOOK_UP: copies_look_up(c, i); break;
			case REWRITE: copies_rewrite(c, i); break;
			case GATHER: copies_gather(c, i); break;
			}
	if (is_wrong(o->kernel))
		switch (o->kernel) {
		case LOOK_UP: c->routes[c->n - 1].adjacency += 1 << 16; break;
		case REWRITE: c->headers[(c->n - 1) * (HEADER_BYTES / 4) + 1] ^= 1; break;
		case GATHER: c->results[0].verdict++; break;
		}
}

static void *execute(void *unused)
{
	struct timespec t;

	run_anywhere();
	for (;;) {
		pthread_mutex_lock(&lock);
		while (executed == enqueued)
			pthread_cond_wait(&changed, &lock);
		struct op o = queue[executed % QUEUE];
		pthread_mutex_unlock(&lock);
		switch (o.kind) {
		case COPY: memcpy((void *)o.to, (void *)o.from, o.n); break;
		case LAUNCH: run(&o); break;
		case EVENT:
			clock_gettime(CLOCK_MONOTONIC, &t);
			events[o.event].ns = t.tv_sec * 1000000000ll + t.tv_nsec;
			__atomic_add_fetch(&events[o.event].done, 1, __ATOMIC_RELEASE);
			break;
		}
		pthread_mutex_lock(&lock);
		executed++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

static int faulty;

static CUresult enqueue(const struct op *o)
{
	static int started;
	pthread_t thread;

	if (faulty)
		return 700;
	if (recording) {
		graphs[recording - 1].ops[graphs[recording - 1].n++] = *o;
		return 0;
	}
	pthread_mutex_lock(&lock);
	if (!started && !pthread_create(&thread, 0, execute, 0))
		started = !pthread_detach(thread);
	while (enqueued - executed == QUEUE)
		pthread_cond_wait(&changed, &lock);
	queue[enqueued++ % QUEUE] = *o;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return 0;
}

CUresult cuModuleLoadDataEx(handle *module, const char *image, u32 n, const u32 *options, void **values)
{
	(void)n, (void)options, (void)values;
	for (int i = 0; i < KERNELS; i++) {
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

CUresult cuLaunchKernel(handle f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, handle stream, void **params, void **extra)
{
	struct op o = {.kind = LAUNCH, .kernel = (u32)f, .blocks = gx};

	(void)stream;
	if (bx != (f == RESIDENT ? RESIDENT_THREADS : LADDER_THREADS) || by * bz * gy * gz != 1 || gx == 0 || shared != (f == RESIDENT ? RESIDENT_THREADS / WARP_SIZE * RESIDENT_SCRATCH : 0) || extra || !strcmp(FAULT, "launch"))
		return 1;
	faulty = !strcmp(FAULT, "fault");
	if (f == RESIDENT) {
		for (resident_count = 0; resident_count < gx && resident_count < BLOCKS && !faulty; resident_count++) {
			struct block *b = &resident_blocks[resident_count];
			*b = (struct block){*(struct resident *)params[0], resident_count};
			if (pthread_create(&residents[resident_count], 0, stay, b))
				return 1;
		}
		return 0;
	}
	if (f == FUSED)
		o.params.fused = *(struct fused *)params[0];
	else
		o.params.copies = *(struct copies *)params[0];
	return enqueue(&o);
}

static CUresult enqueue_copy(ptr to, ptr from, size_t n) { return enqueue(&(struct op){.kind = COPY, .to = to, .from = from, .n = n}); }
CUresult cuMemcpyHtoDAsync_v2(ptr to, ptr from, size_t n, handle s) { (void)s; return enqueue_copy(to, from, n); }
CUresult cuMemcpyDtoHAsync_v2(ptr to, ptr from, size_t n, handle s) { (void)s; return enqueue_copy(to, from, n); }

static CUresult wait_for_all(void)
{
	pthread_mutex_lock(&lock);
	while (executed != enqueued)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return faulty ? 700 : 0;
}
CUresult cuCtxSynchronize(void)
{
	while (resident_count > 0)
		pthread_join(residents[--resident_count], 0);
	return wait_for_all();
}
CUresult cuStreamSynchronize(handle s) { (void)s; return wait_for_all(); }
CUresult cuStreamQuery(handle s) { (void)s; return faulty ? 700 : executed == enqueued && !resident_count ? 0 : 600; }

CUresult cuEventCreate(handle *e, u32 flags) { (void)flags; *e = ++event_count; return event_count == EVENTS; }
CUresult cuEventRecord(handle e, handle s)
{
	(void)s;
	events[e].recorded++;
	return enqueue(&(struct op){.kind = EVENT, .event = e});
}
CUresult cuEventQuery(handle e)
{
	return faulty ? 700 : __atomic_load_n(&events[e].done, __ATOMIC_ACQUIRE) == events[e].recorded ? 0 : 600;
}
CUresult cuEventElapsedTime(float *ms, handle start, handle end)
{
	*ms = (float)(events[end].ns - events[start].ns) / 1e6f;
	return 0;
}

CUresult cuStreamBeginCapture_v2(handle s, int mode)
{
	(void)s;
	if (mode != 1 || graph_count == GRAPHS || wait_for_all())
		return 1;
	recording = ++graph_count;
	return 0;
}
CUresult cuStreamEndCapture(handle s, handle *g) { (void)s; *g = recording; recording = 0; return 0; }
CUresult cuGraphGetNodes(handle g, handle *nodes, size_t *n) { (void)g, (void)nodes; *n = 0; return 0; }
CUresult cuGraphInstantiateWithFlags(handle *exec, handle g, unsigned long long flags) { (void)flags; *exec = g; return 0; }
CUresult cuGraphLaunch(handle exec, handle s)
{
	(void)s;
	for (u32 i = 0; i < graphs[exec - 1].n; i++) {
		CUresult r = enqueue(&graphs[exec - 1].ops[i]);
		if (r)
			return r;
	}
	return 0;
}
CUresult cuGraphDestroy(handle g) { (void)g; return 0; }
CUresult cuGraphExecDestroy(handle g) { (void)g; return 0; }
