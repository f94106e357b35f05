/* How free warps of a gateway's block claim the batches of its tiles, without a barrier: a warp that has finished a batch claims the next
 * one, of the same tile or of the next, whether or not others still process theirs. So a slow batch delays its own tile alone, and the
 * phases of batches differ: some read packets over PCIe while others encrypt.
 *
 * Claims are numbers in the order of batches, tile after tile. A warp claims a batch before it knows its tile: claims before `end` of the
 * newest tile are of tiles that have come. The warp with the claim `end` has the first batch of the next tile, and polls for it. A warp that
 * finds a tile publishes it, also if it has a later batch and has polled, too.
 *
 * A block has GATEWAY_DEPTH slots, so a tile comes after all batches of the last but one are finished: two tiles suffice.
 *
 * Included by gateway.cu. */
#ifndef WARPROUTE_CLAIM_H
#define WARPROUTE_CLAIM_H

#include "layout.h"
#include "warp.h"

/* A tile that has come. */
struct published {
	uint32_t first, end; /* the claims of its batches: from first to before end. They wrap at 2^32 */
	uint32_t header;     /* tile header */
};

/* The claims of a block, in shared memory. */
struct claims {
	uint32_t claimed; /* batches, since the launch, of tiles that have come or not */
	uint32_t newest;  /* number of the newest tile that has come */
	uint32_t stopped; /* the kernel ends: nobody polls for tiles any longer */
	struct published tiles[GATEWAY_DEPTH]; /* by the remainder of their numbers */
};

/* A claimed batch: of a tile that has come, or of the one after the newest, if that has enough batches. */
struct claim {
	uint32_t number; /* of the tile */
	uint32_t batch;
	uint32_t header; /* of the tile; 0: it has not come; STOP: the kernel ends */
	uint32_t newest; /* header of the newest tile; 0: none has come */
};

/* Starts with the tile with a number, before any warp claims a batch. */
DEVICE void init_claims(struct claims *s, uint32_t number)
{
	s->claimed = 0;
	s->newest = number - 1;
	s->stopped = 0;
	s->tiles[s->newest % GATEWAY_DEPTH] = (struct published){0, 0, 0};
}

/* Claims the next batch. One lane calls it. */
DEVICE uint32_t claim_next(struct claims *s) { return add_shared32(&s->claimed, 1); }

/* Finds the batch of a claim that is not yet processed. One lane calls it. */
DEVICE struct claim find_claim(struct claims *s, uint32_t claim)
{
	uint32_t newest;
	struct published t;

	do { /* until the tile is no other one meanwhile */
		newest = atomic_load_shared32(&s->newest);
		fence_acq_rel_block();
		struct published *p = &s->tiles[newest % GATEWAY_DEPTH];
		t = (struct published){atomic_load_shared32(&p->first), atomic_load_shared32(&p->end), atomic_load_shared32(&p->header)};
		fence_acq_rel_block();
	} while (atomic_load_shared32(&s->newest) != newest);
	if ((int32_t)(claim - t.end) >= 0)
		return (struct claim){newest + 1, claim - t.end, atomic_load_shared32(&s->stopped) ? STOP : 0, t.header};
	if ((int32_t)(claim - t.first) >= 0)
		return (struct claim){newest, claim - t.first, t.header, t.header};
	/* Of the tile before: it has an unfinished batch, so no further one has come in its place. */
	struct published *p = &s->tiles[(newest - 1) % GATEWAY_DEPTH];
	return (struct claim){newest - 1, claim - atomic_load_shared32(&p->first), atomic_load_shared32(&p->header), t.header};
}

/* Publishes the tile of a claimed batch, with a header and a number of batches, unless another warp has. One lane calls it, before it processes the
 * batch: until that is finished, no later tile takes the place of this one. */
DEVICE void publish_tile(struct claims *s, uint32_t claim, const struct claim *c, uint32_t header, uint32_t batches)
{
	struct published *p = &s->tiles[c->number % GATEWAY_DEPTH];
	uint32_t first = claim - c->batch;

	atomic_store_shared32(&p->first, first);
	atomic_store_shared32(&p->end, first + batches);
	atomic_store_shared32(&p->header, header);
	fence_acq_rel_block();
	replace_shared32(&s->newest, c->number - 1, c->number);
}

#endif
