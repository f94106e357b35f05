/* Emulated lanes of a warp. Included by the shims that run warp code.
 *
 * A lane runs until it waits for the others, then the next lane runs. All lanes must reach the same
 * barriers in the same order: on a GPU, divergence there would hang. */
#include <setjmp.h>
#include <ucontext.h>

#define STACK (256 << 10)

static uint32_t running, values[WARP_SIZE];
static ucontext_t caller, first[WARP_SIZE];
static jmp_buf lanes[WARP_SIZE];
static char stacks[WARP_SIZE][STACK] __attribute__((aligned(64)));
static int started[WARP_SIZE];
static const char *barrier_of_first;

static void next_lane(void)
{
	if (started[running]) {
		_longjmp(lanes[running], 1);
	} else {
		started[running] = 1;
		setcontext(&first[running]);
	}
}

/* Waits for all lanes at a barrier. */
static void wait_at(const char *barrier)
{
	if (running == 0)
		barrier_of_first = barrier;
	if (barrier != barrier_of_first) {
		fprintf(stderr, "lanes: lane %u is at %s, lane 0 at %s\n", running, barrier, barrier_of_first);
		exit(1);
	}
	if (!_setjmp(lanes[running])) {
		running = (running + 1) % WARP_SIZE;
		next_lane();
	}
}

static uint32_t lane_id(void) { return running; }

static uint32_t exchange(uint32_t v, uint32_t lane, const char *barrier)
{
	values[running] = v;
	wait_at(barrier);
	v = values[lane];
	wait_at(barrier);
	return v;
}

static void require_full(uint32_t mask)
{
	if (mask != FULL_MASK) {
		fprintf(stderr, "lanes: lane mask %#x: the kernels use FULL_MASK only\n", mask);
		exit(1);
	}
}

static uint32_t __shfl_sync(uint32_t mask, uint32_t v, uint32_t lane)
{
	require_full(mask);
	return exchange(v, lane % WARP_SIZE, "__shfl_sync");
}

static void __syncwarp(void) { wait_at("__syncwarp"); }

static uint32_t __ballot_sync(uint32_t mask, int p)
{
	uint32_t lanes = 0;

	require_full(mask);
	values[running] = p != 0;
	wait_at("__ballot_sync");
	for (uint32_t i = 0; i < WARP_SIZE; i++)
		lanes |= values[i] << i;
	wait_at("__ballot_sync");
	return lanes;
}

static int __all_sync(uint32_t mask, int p) { return __ballot_sync(mask, p) == FULL_MASK; }

/* Ends a lane, and runs the next one to its end. */
static void end_lane(void)
{
	if (running == WARP_SIZE - 1)
		setcontext(&caller);
	running++;
	next_lane();
}

static __attribute__((noinline)) void prepare(uint32_t i, void (*lane)(void))
{
	started[i] = 0;
	getcontext(&first[i]);
	first[i].uc_stack.ss_sp = stacks[i];
	first[i].uc_stack.ss_size = STACK;
	makecontext(&first[i], lane, 0);
}

/* Runs a function in each lane; it ends with end_lane. */
static void run_lanes(void (*lane)(void))
{
	for (uint32_t i = 0; i < WARP_SIZE; i++)
		prepare(i, lane);
	running = 0;
	started[0] = 1;
	swapcontext(&caller, &first[0]);
}
