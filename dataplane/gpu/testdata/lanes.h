/* The lanes of a warp for machines without a GPU.
 *
 * A lane runs until it waits for the others, then the next one does. All come to the same
 * places in the same order, which is checked: on a GPU it would be a hang. */
#include <setjmp.h>
#include <ucontext.h>

#define STACK (256 << 10)

static uint32_t running, values[WARP];
static ucontext_t caller, first[WARP];
static jmp_buf lanes[WARP];
static char stacks[WARP][STACK] __attribute__((aligned(64)));
static int started[WARP];
static const char *place_of_first;

static void next_lane(void)
{
	if (started[running]) {
		_longjmp(lanes[running], 1);
	} else {
		started[running] = 1;
		setcontext(&first[running]);
	}
}

static void meet(const char *where)
{
	if (running == 0)
		place_of_first = where;
	if (where != place_of_first) {
		fprintf(stderr, "lanes: lane %u is at %s, lane 0 at %s\n", running, where, place_of_first);
		exit(1);
	}
	if (!_setjmp(lanes[running])) {
		running = (running + 1) % WARP;
		next_lane();
	}
}

static uint32_t lane_index(void) { return running; }

static uint32_t exchange(uint32_t v, uint32_t lane, const char *where)
{
	values[running] = v;
	meet(where);
	v = values[lane];
	meet(where);
	return v;
}

static uint32_t shuffle(uint32_t v, uint32_t lane) { return exchange(v, lane % WARP, "shuffle"); }
static void join_warp(void) { meet("join_warp"); }

static uint32_t lanes_where(int p)
{
	uint32_t lanes = 0;

	values[running] = p != 0;
	meet("lanes_where");
	for (uint32_t i = 0; i < WARP; i++)
		lanes |= values[i] << i;
	meet("lanes_where");
	return lanes;
}

static int all_of_warp(int p) { return lanes_where(p) == EVERYONE; }

/* Ends a lane; they end in turn, too. */
static void end_lane(void)
{
	if (running == WARP - 1)
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

/* Has each lane run a function, which ends with end_lane. */
static void run_lanes(void (*lane)(void))
{
	for (uint32_t i = 0; i < WARP; i++)
		prepare(i, lane);
	running = 0;
	started[0] = 1;
	swapcontext(&caller, &first[0]);
}
