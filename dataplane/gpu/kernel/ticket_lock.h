/* The lock under which the batches of a worker take sequence numbers, in their order. Tickets are in the order of batches. A batch has the
 * lock when the worker's word shows its ticket. Within a tile, which one block serves, the lock passes through shared memory.
 *
 * Behind the first packet of a chunk that only the host can number, the host holds the lock (HOST_HOLDS): later batches of the chunk pass
 * it on as it is, and the next chunk waits until the host has taken numbers for these packets, and has released the lock: it stores the
 * ticket after the chunk's last one in the mailbox, by worker. So numbers stay in order. A tile cannot release it: it may be
 * behind the waiting tile in the same block.
 *
 * Cache line 1 of the descriptors of a warp batch has, in the word that has the tile header otherwise, the ticket of the tile's first batch and flags:
 *
 *	LOCK_WAITS  the tile waits while the host holds the lock. It is the first tile of its chunk
 *	LOCK_EARLY  batches release the lock early, whatever the length of their packets
 *
 * If the host holds the lock when a tile comes that does not wait, all packets of that tile are the host's, too. Such are the later
 * tiles of a chunk, and the first tile behind a chunk that the host has abandoned. The host releases the lock when it posts a last pass,
 * and an abandoned chunk has none. So the next chunk joins it, and the host releases the lock when it posts the last pass of that one
 * (joinsAbandoned in seq_assign.go).
 *
 * Included by seq_assign.h. */
#ifndef WARPROUTE_TICKET_LOCK_H
#define WARPROUTE_TICKET_LOCK_H

#include "esp_lane.h"

/* The ticket lock of a worker, for a tile. */
struct ticket_lock {
	uint32_t *now_serving; /* of the worker, in device memory: twice a number that is the ticket that has the lock, modulo TICKETS, and HOST_HOLDS if the host held it when it was passed on */
	const uint32_t *released; /* of the worker, in host memory: ticket of the batch to which the host has last released it */
	uint32_t first;        /* ticket of the tile's first batch, and flags */
	uint32_t batches;      /* of the tile */
};

#define HOST_HOLDS 1u
#define LOCK_TIMEOUT 2u       /* the batch waits no longer: its packets are the host's */
#define HOST_POLLS (1u << 19) /* of host memory, about 1 s: then the host is taken to have abandoned the chunk behind which it holds the lock */
#define LOCK_POLLS (1u << 22) /* a few seconds: a wrong ticket must not hang the kernel */

/* The part of the lock that is in shared memory, for the batches of a tile: a block has one per slot. */
struct block_lock {
	uint32_t serving;  /* the batch of a tile that has the lock (serving_of), and the state in which it gets it */
	uint32_t returned; /* a bit per batch but the tile's last one: its additions have returned */
};

/* The value of serving when a number of the tile's batches have had the lock. */
DEVICE uint32_t serving_of(const struct tile *tile, uint32_t batches) { return tile->number << 7 | batches << 2; }

/* Waits until the worker's word shows the ticket of a tile's first batch and, if the tile waits, while the host holds the lock. After
 * HOST_POLLS it waits for the host no longer. Returns the state of the lock: 0, HOST_HOLDS or LOCK_TIMEOUT. */
DEVICE uint32_t wait_for_ticket(const struct ticket_lock *lock)
{
	uint32_t polls = 0, v, ticket = lock->first % TICKETS;

	while (((v = load32(lock->now_serving)) >> 1) % TICKETS != ticket)
		if (polls++ >= LOCK_POLLS)
			return LOCK_TIMEOUT;
	if (!(lock->first & LOCK_WAITS))
		return v & HOST_HOLDS;
	for (polls = 0; v & HOST_HOLDS && polls < HOST_POLLS && host_load32(lock->released) != ticket; polls++)
		;
	if (v & HOST_HOLDS)
		fence_acq_rel_sys(); /* orders this tile's accesses after what the host did before the release */
	return 0;
}

/* Waits until the previous batch of the tile has released the lock. Returns the state in which it has passed it on. */
DEVICE uint32_t wait_in_block(struct block_lock *block, const struct tile *tile)
{
	uint32_t v, wanted = in_register(serving_of(tile, tile->batch));

	do
		v = load_shared32(&block->serving);
	while ((v & ~(HOST_HOLDS | LOCK_TIMEOUT)) != wanted);
	return v & (HOST_HOLDS | LOCK_TIMEOUT);
}

/* How a batch releases the lock. It is prepared before the lock is acquired, so that nothing is loaded under it. */
struct lock_release {
	int last;      /* it is the tile's last batch, and passes the lock to another block */
	int passes;    /* this lane passes the lock to the next batch before the additions return */
	uint32_t word; /* the next value of serving or, of the last batch, the present one of now_serving; without the state in which it acquires the lock */
};

/* Prepares the release of the lock by a batch. state is HOST_HOLDS if the host holds the lock afterwards, else 0. The lock passes before the
 * additions return if early is set, or if the tile has LOCK_EARLY. */
DEVICE struct lock_release release_of(const struct ticket_lock *lock, const struct tile *tile, uint32_t state, int early)
{
	int last = tile->batch + 1u == lock->batches;
	early = early || lock->first & LOCK_EARLY;
	uint32_t word = last ? (lock->first % TICKETS + tile->batch) << 1 : serving_of(tile, tile->batch + 1u);

	return (struct lock_release){(int)in_register((uint32_t)last), (int)in_register(early && !last && lane_id() == 0), in_register(word | state)};
}

/* Acquires the lock for a batch. All lanes call it. Returns its state: unless that is 0, all packets of the batch are the host's. */
DEVICE uint32_t acquire_lock(const struct ticket_lock *lock, struct block_lock *block, const struct tile *tile)
{
	uint32_t state = 0;

	if (lane_id() == 0 && tile->batch > 0) {
		state = wait_in_block(block, tile);
	} else if (lane_id() == 0) {
		state = wait_for_ticket(lock);
	}
	__syncwarp();
	return __shfl_sync(FULL_MASK, state, 0);
}

/* Takes count numbers from next if take is set, and releases the lock, in a state. All lanes call it. Returns the first number, or 0.
 *
 * Within the tile, an early release does not wait until the additions return, which takes longer than all else under the lock. There is no
 * fence between them and the store: __syncwarp keeps their order in the program, and the additions of a multiprocessor arrive at the L2
 * cache in the order of issue (observed, not documented; over NVLink, too: TestGPUNumbersPacketsOfManyWorkers). If they did not, neighboring batches would swap numbers, but never share
 * them. Another block gets the lock when all additions of the tile have returned. */
DEVICE uint64_t take_and_release(const struct ticket_lock *lock, struct block_lock *block, const struct tile *tile, struct lock_release release, uint32_t state,
				 uint64_t *next, uint32_t count, int take)
{
	uint64_t first = 0;

	if (take)
		first = atomic_add64(next, count);
	__syncwarp();
	if (release.passes)
		store_shared32(&block->serving, release.word | state);
	__syncwarp();
	/* The same as first, since serving is never ~0. It depends on a load behind the store, so the compiler cannot move the wait for the
	 * additions in front of the store. */
	uint64_t behind = first + (load_shared32(&block->serving) == ~0u);
	uint32_t returned = __all_sync(FULL_MASK, behind != ~0ull) != 0; /* always 1: a store of it waits for the additions */
	if (lane_id() != 0)
		return first;
	if (!release.last) {
		or_shared32(&block->returned, returned << tile->batch);
		if (!release.passes)
			store_shared32(&block->serving, release.word | state);
		return first;
	}
	while (load_shared32(&block->returned) != (1u << tile->batch) - 1)
		;
	store_shared32(&block->returned, 0);
	if (!(state & LOCK_TIMEOUT))
		store32(lock->now_serving, (release.word | state) + 2 * returned); /* the next ticket */
	return first;
}

/* The word of a tile's worker. Words are in sectors of their own. */
DEVICE uint32_t *now_serving_of(const struct ipsec_tables *ipsec, uint32_t header)
{
	return ipsec->now_serving + (header >> TILE_WORKER_SHIFT) % TILE_WORKERS * (SECTOR / 4);
}

/* The host's word of a tile's worker. */
DEVICE const uint32_t *released_of(const struct mailbox *m, uint32_t header)
{
	return m->control + RELEASED_AT / 4 + (header >> TILE_WORKER_SHIFT) % TILE_WORKERS;
}

#endif
