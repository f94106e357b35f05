/* Per-lane context of an ESP packet: its job, and its place in host memory and in the staging buffer (staging.h). A packet's memory has
 * segments of 16 bytes, the most that a lane loads at once, and sectors of 32. Included by bin.h and ticket_lock.h. */
#ifndef WARPROUTE_ESP_LANE_H
#define WARPROUTE_ESP_LANE_H

#include "job.h"
#include "lane_mask.h"
#include "warp_batch.h"

#include "../../../ipsec/device/esp.h"

#define SEGMENT ESP_SEGMENT_BYTES
#define SEGMENT_WORDS (SEGMENT / 4)
#define SECTOR 32
#define SECTOR_SEGMENTS (SECTOR / SEGMENT)

/* A range of a packet's segments, from inclusive, to exclusive. */
struct segments {
	uint32_t from, to;
};

/* Per-lane ESP context: the lane's own packet, and the key that the lane loads for others. */
struct esp_lane {
	struct job job;
	uint32_t start, segments;                     /* address of the first segment, and number of segments */
	struct segments received;                     /* those of the received frame; sealing adds others */
	uint32_t head;                                /* number of the first received ones that are in the scratch already (heads.h) */
	uint32_t at, key;                             /* word offsets in the staging buffer */
	uint32_t first;                               /* number in the set that the packet's first segment has, or would have */
	uint32_t record, key_word, key_first_segment; /* of the set's key with this lane's number */
	/* Within the staging buffer. */
	uint32_t esp, text; /* word offset of the SPI; words of text */
	uint32_t failed;    /* the ICV, or the key, does not match */
	uint32_t admitted;  /* RESULT_ADMITTED, or 0 */
};

/* The address of the sector in which the copy of a frame's header begins. */
DEVICE uint32_t first_sector(uint32_t addr) { return (addr - 2) & ~(SECTOR - 1u); }

/* Returns the number of segments of the sectors from an address up to another. */
DEVICE uint32_t segments_to(uint32_t from, uint32_t to) { return (to - from + SECTOR - 1) / SECTOR * SECTOR_SEGMENTS; }

/* Returns a lane's context for a job whose packet is bytes long from addr on. */
DEVICE struct esp_lane lane_of(struct job job, uint32_t addr, uint32_t bytes)
{
	uint32_t start = first_sector(addr), segments = segments_to(start, addr + bytes);

	return (struct esp_lane){job, start, segments, {0, segments}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
}

/* Returns the context of a lane whose packet has no job yet. */
DEVICE struct esp_lane received_lane_of(struct desc_word w) { return lane_of((struct job){0, 0, 0, 0, 0, JOB_NONE}, w.low, w.high & 0xffff); }

/* Returns a lane's context for a job and its descriptor. */
DEVICE struct esp_lane esp_lane_of(struct job job, struct desc_word w) { return lane_of(job, w.low, job.esp + job.bytes); }

/* Returns the segments of a lane's packet that its frame had when it was received: sealing adds others, which need not be loaded. */
DEVICE struct segments received_part(const struct esp_lane *c, struct desc_word w)
{
	return (struct segments){(first_sector(w.low) - c->start) / SEGMENT, min32(segments_to(c->start, w.low + (w.high & 0xffff)), c->segments)};
}

#endif
