/* lock: threads as warps of blocks, of one lane each. They claim the batches of workers' tiles (claim.h), each of which must be claimed once,
 * and take sequence numbers for them under the ticket lock (ticket_lock.h). A thread per worker is the host, which takes those of the batches that the device leaves to it. The numbers of each
 * worker must be in the order of its batches, without gaps. The argument is the seed of the tiles. Prints how many batches got numbers
 * from the device, and from the host, and how often a warp began a batch while another one of the block processed one of the tile before, and
 * found a tile by a later batch than the first. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "../kernel/warp.h"

/* Words that change while a thread polls them. */
static uint32_t polled32(const uint32_t *p)
{
	sched_yield();
	return load32(p);
}

static uint32_t polled_shared32(const uint32_t *p)
{
	sched_yield();
	return load_shared32(p);
}

/* Others run before the addition, and before the store. */
static uint64_t late_add64(uint64_t *p, uint64_t v)
{
	sched_yield();
	return atomic_add64(p, v);
}

static void late_store_shared32(uint32_t *p, uint32_t v)
{
	sched_yield();
	store_shared32(p, v);
}

#define load32 polled32
#define load_shared32 polled_shared32
#define store_shared32 late_store_shared32
#define atomic_load_shared32(p) polled_shared32(p)
#define atomic_store_shared32 late_store_shared32
#define host_load32 polled32
#define atomic_add64 late_add64
#include "../kernel/claim.h"
#include "../kernel/ticket_lock.h"

static uint32_t lane_id(void) { return 0; }
static uint32_t __shfl_sync(uint32_t mask, uint32_t v, uint32_t lane) { return (void)mask, (void)lane, v; }
static void __syncwarp(void) {}
static int __all_sync(uint32_t mask, int p) { return (void)mask, p; }
static __attribute__((unused)) uint32_t __ballot_sync(uint32_t mask, int p) { return (void)mask, p != 0; }
static void subwarp_sync(uint32_t n) { (void)n; }
static uint32_t subwarp_shfl_xor(uint32_t v, uint32_t distance, uint32_t n) { return (void)distance, (void)n, v; }
static uint32_t subwarp_rotate(uint32_t v, uint32_t n, uint32_t width, uint32_t of) { return (void)n, (void)width, (void)of, v; }

enum { WORKERS = 2, BLOCKS = 3, WARPS = 4, TILES = 200, SAS = 3 };

struct batch {
	uint32_t sa, count; /* of its packets; the SAs of a worker are its own */
	int early, leaves;  /* releases the lock early; leaves later packets of the chunk to the host */
	uint64_t first;     /* number */
	int taken;          /* by the device */
	uint32_t claims;
};

/* A tile, which is also a chunk. */
static struct plan {
	struct tile tile;
	struct ticket_lock lock;
	uint32_t worker, block;
	struct batch batches[WARPS];
	uint32_t finished; /* batches */
} plans[TILES], *tiles_of[BLOCKS][TILES + 1]; /* by block, in order; NULL behind the last one */

static struct block {
	struct claims claims;
	struct block_lock locks[GATEWAY_DEPTH];
} blocks[BLOCKS];
static uint32_t overlaps, speculated;
static uint32_t now_serving[WORKERS], released[WORKERS];
static uint64_t seqs[WORKERS][SAS];
static uint32_t random_state;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525 + 1013904223;
	return (random_state >> 8) % n;
}

static void fail(const struct plan *p, const char *what, uint64_t value)
{
	fprintf(stderr, "lock: tile %ld, worker %u, block %u, ticket %u, %u batches: %s: %llu\n", (long)(p - plans), p->worker, p->block,
		p->lock.first % TICKETS, p->lock.batches, what, (unsigned long long)value);
	exit(1);
}

static void plan_tiles(void)
{
	uint32_t tickets[WORKERS], numbers[BLOCKS], counts[BLOCKS] = {0};

	for (uint32_t w = 0; w < WORKERS; w++) {
		tickets[w] = TICKETS - random_below(2 * TILES); /* they wrap in most runs */
		now_serving[w] = tickets[w] << 1;
		released[w] = TICKETS; /* none */
	}
	for (uint32_t b = 0; b < BLOCKS; b++) {
		struct claims *s = &blocks[b].claims;
		init_claims(s, numbers[b] = 0u - random_below(TILES));
		s->claimed = 0u - random_below(TILES); /* they wrap in most runs */
		s->tiles[s->newest % GATEWAY_DEPTH] = (struct published){s->claimed, s->claimed, 0};
	}
	for (struct plan *p = plans; p < plans + TILES; p++) {
		p->worker = random_below(WORKERS);
		p->block = random_below(BLOCKS);
		p->tile.number = numbers[p->block]++;
		tiles_of[p->block][counts[p->block]++] = p;
		p->lock = (struct ticket_lock){&now_serving[p->worker], &released[p->worker], tickets[p->worker] % TICKETS | (random_below(4) > 0 ? LOCK_WAITS : 0) | (random_below(2) > 0 ? LOCK_EARLY : 0), 1 + random_below(WARPS)};
		tickets[p->worker] += p->lock.batches;
		for (uint32_t b = 0; b < p->lock.batches; b++)
			p->batches[b] = (struct batch){random_below(SAS), 1 + random_below(20), (int)random_below(2), random_below(8) == 0, 0, 0, 0};
	}
}

static int finished(struct plan *p) { return __atomic_load_n(&p->finished, __ATOMIC_ACQUIRE) == p->lock.batches; }

/* Claims a batch. Returns its tile, or NULL behind the last one. The first batch's warp waits until the tile comes: when the one GATEWAY_DEPTH before it is
 * finished, as it takes its slot. Warps with later batches poll in some rounds, and may find the tile sooner. */
static struct plan *claim_batch(uint32_t block, uint32_t *batch, uint32_t *delay)
{
	struct claims *s = &blocks[block].claims;
	struct plan **tiles = tiles_of[block];
	uint32_t claim = claim_next(s);

	for (;; sched_yield()) {
		struct claim c = find_claim(s, claim);
		uint32_t index = c.number - tiles[0]->tile.number;
		*batch = c.batch;
		if (c.header == STOP)
			return NULL;
		if (c.header)
			return tiles[index];
		*delay = *delay * 1664525 + 1013904223;
		if (c.batch > 0 && *delay >> 30)
			continue;
		if (!tiles[index]) {
			if (c.batch == 0)
				store_shared32(&s->stopped, 1);
			continue;
		}
		if (c.batch >= tiles[index]->lock.batches || (index >= GATEWAY_DEPTH && !finished(tiles[index - GATEWAY_DEPTH])))
			continue;
		publish_tile(s, claim, &c, 1, tiles[index]->lock.batches);
		if (c.batch > 0)
			__atomic_fetch_add(&speculated, 1, __ATOMIC_RELAXED);
		return tiles[index];
	}
}

static void *run_warp(void *arg)
{
	uint32_t block = (uint32_t)(uintptr_t)arg / WARPS, delay = (uint32_t)(uintptr_t)arg % WARPS, batch;

	for (struct plan *p; (p = claim_batch(block, &batch, &delay)); ) {
		struct block_lock *lock = &blocks[block].locks[p->tile.number % GATEWAY_DEPTH];
		struct tile tile = p->tile;
		tile.batch = (uint16_t)batch;
		if (batch >= p->lock.batches)
			fail(p, "has no batch", batch);
		struct batch *b = &p->batches[batch];
		if (__atomic_fetch_add(&b->claims, 1, __ATOMIC_RELAXED) > 0)
			fail(p, "claimed twice: batch", batch);
		if (p != tiles_of[block][0] && !finished(tiles_of[block][p->tile.number - tiles_of[block][0]->tile.number - 1]))
			__atomic_fetch_add(&overlaps, 1, __ATOMIC_RELAXED);
		for (delay = delay * 5 + 1; delay >> 4 & 3; delay = delay * 5 + 1)
			sched_yield();
		struct lock_release release = release_of(&p->lock, &tile, b->leaves ? HOST_HOLDS : 0, b->early);
		if (release.passes != (batch + 1 < p->lock.batches && (b->early || p->lock.first & LOCK_EARLY)))
			fail(p, "is the lock released early", (uint64_t)release.passes);
		uint32_t state = acquire_lock(&p->lock, lock, &tile);
		if (state & LOCK_TIMEOUT)
			fail(p, "the lock did not come to batch", batch);
		if (batch == 0 && load_shared32(&lock->returned))
			fail(p, "additions recorded before the tile", lock->returned);
		b->taken = !state;
		uint64_t first = take_and_release(&p->lock, lock, &tile, release, state, &seqs[p->worker][b->sa], b->count, b->taken);
		if (b->taken)
			b->first = first;
		__atomic_fetch_add(&p->finished, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* Returns the worker's next tile, or NULL. */
static const struct plan *next_tile(const struct plan *p)
{
	for (const struct plan *n = p + 1; n < plans + TILES; n++)
		if (n->worker == p->worker)
			return n;
	return NULL;
}

/* Takes the numbers that a worker's tiles leave to the host, when each is finished, and then releases the lock if the next tile waits. */
static void *run_host(void *arg)
{
	for (struct plan *p = plans; p < plans + TILES; p++) {
		if (p->worker != (uint32_t)(uintptr_t)arg)
			continue;
		while (!finished(p))
			sched_yield();
		int holds = 0;
		for (struct batch *b = p->batches; b < p->batches + p->lock.batches; b++) {
			holds |= !b->taken || b->leaves;
			if (!b->taken)
				b->first = __atomic_fetch_add(&seqs[p->worker][b->sa], b->count, __ATOMIC_RELAXED);
		}
		const struct plan *n = next_tile(p);
		if (holds && n && n->lock.first & LOCK_WAITS)
			__atomic_store_n(&released[p->worker], n->lock.first % TICKETS, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void check(void)
{
	uint64_t next[WORKERS][SAS] = {{0}};
	uint32_t taken = 0, left = 0, holds[WORKERS] = {0};

	for (struct plan *p = plans; p < plans + TILES; p++) {
		if (p->lock.first & LOCK_WAITS)
			holds[p->worker] = 0;
		for (struct batch *b = p->batches; b < p->batches + p->lock.batches; b++) {
			if (b->first != next[p->worker][b->sa])
				fail(p, "a batch has not the next number, but this", b->first);
			if (b->taken == (int)holds[p->worker])
				fail(p, "numbers of a batch taken by the wrong side, by the device", (uint64_t)b->taken);
			next[p->worker][b->sa] += b->count;
			holds[p->worker] |= (uint32_t)b->leaves;
			*(b->taken ? &taken : &left) += 1;
		}
	}
	printf("%u %u %u %u\n", taken, left, overlaps, speculated);
}

int main(int argc, char **argv)
{
	pthread_t threads[BLOCKS * WARPS + WORKERS];

	random_state = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
	plan_tiles();
	for (uintptr_t i = 0; i < BLOCKS * WARPS; i++)
		pthread_create(&threads[i], NULL, run_warp, (void *)i);
	for (uintptr_t w = 0; w < WORKERS; w++)
		pthread_create(&threads[BLOCKS * WARPS + w], NULL, run_host, (void *)w);
	for (uint32_t i = 0; i < BLOCKS * WARPS + WORKERS; i++)
		pthread_join(threads[i], NULL);
	check();
	return 0;
}
