/* Mailbox of a device: host memory through which workers pass tiles of chunks to blocks. Included by
 * warp_batch.h.
 *
 * A slot holds one tile and is served by one block. A worker takes a free block for each tile,
 * and returns it afterwards, so any block serves any worker. A gateway's block has two slots, which it begins in turn: if the worker
 * has posted a tile while the block processes one, warps begin it when they become free; if it comes later, they find it within some microseconds (claim.h).
 *
 *	done                     for each warp batch, the number of the last finished tile
 *	first                    of the block's first slot: the number of the block's first tile since the launch
 *	results                  a struct result per packet
 *	descriptors              warp batches
 *	jobs                     a struct job per packet, like results (job.h); of a tile with FIND_SAS,
 *	                         EXPECT_SA or ASSIGN_SEQS, the device stores 8 bytes per packet here: key index, and sequence number or length,
 *	                         or of RESULT_HOST_SEALS a sequence number; of a tile with SEQ_REQUESTS, requests, with the answers in results
 *	headers, short headers   inlined headers of the first batches (low-latency path)
 *	completions              inline completions of these packets
 *
 * The doorbell is part of the descriptors. A descriptor cache line is 64 bytes: the tile's number
 * and header, then seven struct frame. It is read in one request, so if it has the expected number its
 * frames are valid. Four of them make a warp batch of up to 28 packets, which a warp
 * reads at once, 64 bits per lane. On a gateway, if the batches of a tile have up to 14 packets and it has no EXPECT_SA, two are in use,
 * and half of the warp reads them (descriptor_lanes):
 *
 *	lane   0            1 ... 7        8            9 ... 15       16 ...
 *	       number,      7 frames     number,      7 frames       ...
 *	       header                    header
 *
 * A tile header has the number of packets, the packets of each batch but the last, the worker's number,
 * and flags. With EXPECT_SA and ASSIGN_SEQS, only the first cache line of a batch has it; expect.h and ticket_lock.h have the words of the others.
 *
 * Low-latency path: if the worker has no other chunk in flight and this one is small, the host copies the packets' headers beside the
 * descriptors (INLINE_HEADERS in the tile header), which saves a PCIe round trip. A header is a
 * cache line: the 64 bytes from 2 before the frame on (packet.h). If all packets are IPv4 without
 * options, 32 bytes suffice (INLINE_SHORT_HEADERS): from the last two bytes of the link addresses
 * on. The first two bytes are a tag of the tile. If a tag does not match, the warp falls back to
 * reading the frames.
 *
 * A warp with inlined headers writes inline completions instead of frames and done: a write to a
 * frame would have to reach the host before done, at the cost of another PCIe crossing. The host
 * applies completions to the frames. If a frame must be changed behind its header, to complete an
 * L4 checksum, the warp processes the batch as without inlined headers. A completion is two
 * segments of 16 bytes, each of which arrives whole:
 *
 *	tag (2 bytes), link addresses (12), verdict (2)
 *	tag (2), length (2), bytes 4 to 11 of the IP header (8), table generation (4)
 *
 * If a packet is not forwarded, the result's addr replaces the first 4 bytes of link addresses.
 * The host compares the generation with the current one (tables.h). */
#ifndef WARPROUTE_MAILBOX_H
#define WARPROUTE_MAILBOX_H

#include "layout.h"
#include "tables.h"

DEVICE uint32_t tag_of(uint32_t number) { return 1 + number % TAG_COUNT; }

/* Frames of a worker. */
struct worker_memory {
	uint8_t *umem;
	uint64_t bytes; /* below 2^32 */
};

struct mailbox {
	uint8_t *slots;
	uint32_t slot_bytes; /* stride */
	uint32_t results, descriptors, jobs, headers, short_headers, completions; /* offsets in a slot; done is at 0 */
	uint32_t block_count;                /* block block_count is the watcher (poll.h) */
	const struct worker_memory *workers; /* by number; constant */
	const uint32_t *control;             /* in host memory, the beginning of the mailbox: the number of awake blocks, or STOP; and from RELEASED_AT on, a word per worker (ticket_lock.h) */
	uint32_t *awake;                     /* its copy in device memory */
	struct tables tables;
};

CHECK_WORKER_MEMORY_LAYOUT;
CHECK_MAILBOX_LAYOUT;

/* A tile, and the warp batch of it that a warp processes. A tile has up to one for each warp of the block. */
struct tile {
	uint8_t *slot, *umem;
	uint32_t umem_bytes, number, packets;
	uint16_t batch_packets; /* of each batch but the last */
	uint16_t batch;         /* the warp's */
};

DEVICE struct tile tile_of(const struct mailbox *m, uint8_t *slot, uint32_t number, uint32_t header, uint32_t batch)
{
	const struct worker_memory *w = m->workers + (header >> TILE_WORKER_SHIFT) % TILE_WORKERS;
	return (struct tile){slot, w->umem, (uint32_t)w->bytes, number, header % TILE_PACKETS, (uint16_t)((header >> TILE_BATCH_SHIFT) % TILE_BATCH_PACKETS), (uint16_t)batch};
}

DEVICE uint32_t batch_count(uint32_t header)
{
	uint32_t each = (header >> TILE_BATCH_SHIFT) % TILE_BATCH_PACKETS;
	return (header % TILE_PACKETS + each - 1) / each;
}

#endif
