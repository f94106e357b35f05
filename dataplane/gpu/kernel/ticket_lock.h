/* The lock under which the batches of a worker take sequence numbers, in their order. Tickets are in the order of batches. A batch has the
 * lock when the worker's word shows its ticket. Within a tile, which one block serves, the lock passes through shared memory.
 *
 * Behind the first packet of a chunk that only the host can number, the host holds the lock (HOST_HOLDS): later batches of the chunk pass
 * it on as it is, and the next chunk waits until the host has taken numbers for these packets, and has released the lock by the first
 * tile of the chunk's last pass (RELEASE_LOCK). So numbers stay in order.
 *
 * The descriptors of a warp batch have, in the words that have the tile header otherwise:
 *
 *	cache line 1  the ticket of the tile's first batch
 *	cache line 2  nonzero: the tile waits while the host holds the lock. It is the first tile of its chunk
 *
 * If the host holds the lock when a tile comes that does not wait, all packets of that tile are the host's, too. Such are the later
 * tiles of a chunk, and the first tile behind a chunk that the host has abandoned: that chunk has no last pass, so the next
 * chunk joins it, and its own last pass releases the lock (joinsAbandoned in seq_assign.go).
 *
 * Of a tile with RELEASE_LOCK, cache line 1 has the ticket after the chunk's last one.
 *
 * Included by seq_assign.h. */
#ifndef WARPROUTE_TICKET_LOCK_H
#define WARPROUTE_TICKET_LOCK_H

#include "esp_lane.h"

/* The ticket lock of a worker, for a tile. */
struct ticket_lock {
	uint32_t *now_serving; /* of the worker, in device memory: twice the ticket that has the lock, and HOST_HOLDS */
	uint32_t first;        /* ticket of the tile's first batch */
	uint32_t waits;        /* while the host holds the lock: cache line 2 */
	uint32_t batches;      /* of the tile */
};

#define HOST_HOLDS 1u
#define LOCK_TIMEOUT 2u       /* the batch waits no longer: its packets are the host's */
#define HOST_POLLS (1u << 20) /* about 1 s, with those for the ticket: then the host is taken to have abandoned the chunk behind which it holds the lock */
#define LOCK_POLLS (1u << 22) /* a few seconds: a wrong ticket must not hang the kernel */

/* The value of block_serving, the word in shared memory by which the lock passes within a tile, when a number of the tile's batches
 * have had the lock. */
DEVICE uint32_t block_serving_of(const struct tile *tile, uint32_t batches) { return tile->number << 7 | batches << 2; }

/* Waits until the worker's word shows the ticket of a tile's first batch and, if the tile waits, while the host holds the lock. After
 * HOST_POLLS it waits for the host no longer. Returns the state of the lock: 0, HOST_HOLDS or LOCK_TIMEOUT. Once the word shows the
 * ticket, only the host's release changes it. */
DEVICE uint32_t wait_for_ticket(const struct ticket_lock *lock)
{
	uint32_t polls = 0, v;

	while ((v = load32(lock->now_serving)) >> 1 != lock->first % TICKETS)
		if (polls++ >= LOCK_POLLS)
			return LOCK_TIMEOUT;
	for (; v & HOST_HOLDS && lock->waits && polls < HOST_POLLS; polls++)
		v = load32(lock->now_serving);
	return lock->waits ? 0 : v & HOST_HOLDS;
}

/* Waits until the previous batch of the tile has released the lock. Returns the state in which it has passed it on. */
DEVICE uint32_t wait_in_block(uint32_t *block_serving, const struct tile *tile, uint32_t batch)
{
	uint32_t v;

	do
		v = load_shared32(block_serving);
	while ((v & ~(HOST_HOLDS | LOCK_TIMEOUT)) != block_serving_of(tile, batch));
	return v & (HOST_HOLDS | LOCK_TIMEOUT);
}

/* Acquires the lock for a batch. All lanes call it. Returns its state: unless that is 0, all packets of the batch are the host's. */
DEVICE uint32_t acquire_lock(const struct ticket_lock *lock, uint32_t *block_serving, const struct tile *tile, uint32_t batch)
{
	uint32_t state = 0;

	if (lane_id() == 0 && batch > 0) {
		state = wait_in_block(block_serving, tile, batch);
	} else if (lane_id() == 0) {
		state = wait_for_ticket(lock);
		fence_acq_rel_gpu();
	}
	__syncwarp();
	return __shfl_sync(FULL_MASK, state, 0);
}

/* Releases the lock to the next batch. Within a block there is no fence between the addition of numbers and the store that passes the
 * lock: it would take as long as all additions of a tile. Multiprocessors issue the accesses of their warps in order; if one did
 * not, neighboring batches would swap numbers, but never share them. */
DEVICE void release_lock(const struct ticket_lock *lock, uint32_t *block_serving, const struct tile *tile, uint32_t batch, uint32_t state)
{
	__syncwarp();
	if (lane_id() == 0 && batch + 1 < lock->batches) {
		store_shared32(block_serving, block_serving_of(tile, batch + 1) | state);
	} else if (lane_id() == 0 && !(state & LOCK_TIMEOUT)) {
		fence_acq_rel_gpu();
		store32(lock->now_serving, (lock->first + batch + 1) << 1 | state);
	}
}

/* Releases the lock that the host holds behind a chunk: see above. A later tile may have given up waiting for it. */
DEVICE void release_host_lock(uint32_t *now_serving, uint32_t ticket) { atomic_replace32(now_serving, ticket << 1 | HOST_HOLDS, ticket << 1); }

/* The word of a tile's worker. Words are in sectors of their own. */
DEVICE uint32_t *now_serving_of(const struct ipsec_tables *ipsec, uint32_t header)
{
	return ipsec->now_serving + (header >> TILE_WORKER_SHIFT) % TILE_WORKERS * (SECTOR / 4);
}

#endif
