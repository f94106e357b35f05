/* The mailbox of a worker: host memory in which it and its blocks meet. Go's
 * mailbox_unsafe.go lays it out; a test holds the two together.
 *
 * A slot holds one chunk, and is served by one block:
 *
 *	done      for each of the first 16 quads, the sequence number of the chunk that was
 *	          finished last; who finishes a quad, finishes every 16th behind it
 *	results   a struct result for each packet
 *	quads     the descriptors
 *	heads, halves   of the packets of the first quads, for chunks that are in a hurry,
 *	answers   and what becomes of these packets
 *
 * Descriptors travel with their doorbell. A unit is a cache line of the host: the
 * chunk's sequence number and size, then seven struct frame. A unit is read whole, so
 * one that has the sequence number has the frames. Four units make a quad, that a warp
 * reads at once, a word of 64 bits a lane:
 *
 *	lane   0         1 ... 7        8         9 ... 15       16 ...
 *	       seq, n    7 frames       seq, n    7 frames       ...
 *
 * A chunk that finds the device idle takes the heads of its packets along, so that the
 * device need not ask for them when it knows where they are: one way over PCIe less. They
 * are lines, too (HEADS is set in the chunk's size): 64 bytes from 2 before the frame on
 * (packet.h). Where all packets are of IPv4 and without options, 32 of these do (HALVES):
 * from the last two of the link addresses on. The first two bytes are a tag, by which a
 * warp knows them for some of this chunk. What does not match, or is read too late, costs
 * nothing but the time: the frames have it all.
 *
 * A warp that had heads answers in the same way, and does not say that it is done: then
 * there are no frames whose way to the host it would have to wait for, once more over
 * PCIe. The host changes them. (Where one is to be changed behind its head, to finish an
 * L4 checksum, the warp works its quad off as any other.) An answer is two pieces of 16
 * bytes, of which each arrives whole:
 *
 *	tag (2 bytes), link addresses (12), verdict (2)
 *	tag (2), length (2), bytes 4 to 11 of the IP header (8), turns (4)
 *
 * Where a packet is not forwarded, the result's addr is in the first 4 bytes of link
 * addresses. It is the host that compares the turns with those of now (tables.h). */
#ifndef WARPROUTE_MAILBOX_H
#define WARPROUTE_MAILBOX_H

#include "tables.h"

#define UNIT_LANES 8
#define UNIT_FRAMES 7
#define QUAD_FRAMES 28
#define QUAD_BYTES 256
#define STOP 0xffffffffu /* as a chunk's size: the block is to end */
#define HEADS 0x40000000u /* in it: heads come along, */
#define HALVES 0x10000000u /* or halves of them */
#define JOBS 0x20000000u  /* packets are to be sealed or opened first (job.h) */
#define HEAD_QUADS 3      /* how many quads may have them: their copying takes the host time */
#define ANSWER_BYTES 32
#define TAGS 0xffffu      /* a chunk's tag is 1 + seq % TAGS */

#define FORWARD_SHARED 75784 /* bytes of shared memory that a block of the kernels without a gateway has */

#define HALF_LEN 32
#define HALF_AT 3 /* word of the head at which a half begins */

DEVICE uint32_t size_of(uint32_t size) { return size & ~(HEADS | HALVES | JOBS); }
DEVICE uint32_t tag_of(uint32_t seq) { return 1 + seq % TAGS; }

struct mailbox {
	uint8_t *slots;
	uint32_t slot_bytes; /* from one slot to the next */
	uint32_t results;    /* offset of the results in a slot; done is at 0 */
	uint32_t quads;      /* offset of the descriptors */
	uint32_t heads, halves;
	uint32_t answers;
	uint32_t umem_bytes;
	uint8_t *umem;
	struct tables tables;
};

#endif
