/* Mailbox of a worker: host memory through which it passes chunks to its blocks. Included by
 * warp_batch.h.
 *
 * A slot holds one chunk and is served by one block:
 *
 *	done                     for each of the first 16 warp batches, the sequence number of the last
 *	                         finished chunk; batch i also reports batches i+16, i+32, ...
 *	results                  a struct result per packet
 *	descriptors              warp batches
 *	headers, short headers   inlined headers of the first batches (low-latency path)
 *	completions              inline completions of these packets
 *
 * The doorbell is part of the descriptors. A descriptor cache line is 64 bytes: the chunk's sequence
 * number and size, then seven struct frame. It is read in one request, so if it has the expected
 * sequence number its frames are valid. Four of them make a warp batch of 28 packets, which a warp
 * reads at once, 64 bits per lane:
 *
 *	lane   0         1 ... 7        8         9 ... 15       16 ...
 *	       seq, n    7 frames       seq, n    7 frames       ...
 *
 * Low-latency path: if the device is idle, the host copies the packets' headers beside the
 * descriptors (INLINE_HEADERS in the chunk's size), which saves a PCIe round trip. A header is a
 * cache line: the 64 bytes from 2 before the frame on (packet.h). If all packets are IPv4 without
 * options, 32 bytes suffice (INLINE_SHORT_HEADERS): from the last two bytes of the link addresses
 * on. The first two bytes are a tag of the chunk. If a tag does not match, the warp falls back to
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

DEVICE uint32_t packet_count(uint32_t size) { return size & ~(INLINE_HEADERS | INLINE_SHORT_HEADERS | HAS_JOBS); }
DEVICE uint32_t tag_of(uint32_t seq) { return 1 + seq % TAG_COUNT; }

struct mailbox {
	uint8_t *slots;
	uint32_t slot_bytes; /* stride */
	uint32_t results, descriptors, headers, short_headers, completions; /* offsets in a slot; done is at 0 */
	uint32_t umem_bytes;
	uint8_t *umem;
	struct tables tables;
};

CHECK_MAILBOX_LAYOUT;

#endif
