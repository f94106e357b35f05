/* Packets of an expected SA, for tiles with EXPECT_SA: the host expects all packets of the tile to be of one SA, and has
 * read none of them. Outbound, it has reserved a sequence number for each. The device seals or opens the packets that
 * are of that SA in one pass; all others are the host's, after they were classified (classify.h). The descriptors of a
 * warp batch name the SA, in the words that have the tile header otherwise:
 *
 *	cache line 1  the sequence number of the batch's first packet, lower half
 *	cache line 2  bits 0 to 15: bits 32 to 47 of that number; from bit EXPECT_KEY_SHIFT on: the index of the keys;
 *	              EXPECT_OPEN
 *	cache line 3  bits 0 to 15: the longest packet that may be sealed, in bytes; EXPECT_EXTENDED
 *
 * Included by seq_assign.h. */
#ifndef WARPROUTE_EXPECT_H
#define WARPROUTE_EXPECT_H

#include "find_sa.h"

struct expected {
	uint32_t low, high, most; /* the words */
};

/* All lanes call it: w is the lane's word of the descriptors. */
DEVICE struct expected expected_sa(struct desc_word w)
{
	return (struct expected){__shfl_sync(FULL_MASK, w.high, DESC_LINE_LANES), __shfl_sync(FULL_MASK, w.high, 2 * DESC_LINE_LANES),
				 __shfl_sync(FULL_MASK, w.high, 3 * DESC_LINE_LANES)};
}

DEVICE uint32_t expected_key(const struct expected *e) { return (e->high & ~EXPECT_OPEN) >> EXPECT_KEY_SHIFT; }

/* Lengths in bytes of the headers in front of ESP, and of all in front of the payload. */
struct front {
	uint32_t outer, all;
};

DEVICE struct front front_of(const struct esp_key *k)
{
	uint32_t headers = load32(&k->headers), outer = (headers & HEADERS_IPV6 ? IPV6_LEN : IPV4_LEN) + (headers & HEADERS_UDP ? UDP_LEN : 0);
	return (struct front){outer, outer + 4 * (ESP_HEADER_WORDS + KEY_BYTE(k, iv_words))};
}

/* Sets the lengths of a job to seal a packet of size bytes, or to open ESP of size bytes. */
DEVICE void set_expected_length(struct job *j, const struct esp_key *k, uint32_t index, uint32_t size, int open)
{
	uint32_t used = size + 2, align = 4 * KEY_BYTE(k, align_words), segments = KEY_BYTE(k, segments);

	if (!open)
		size = 4 * (ESP_HEADER_WORDS + KEY_BYTE(k, iv_words) + KEY_BYTE(k, icv_words)) + used + (-used & (align - 1));
	j->bytes = (uint16_t)size;
	if (KEY_BYTE(k, cipher) == ESP_GCM)
		segments = KEY_BYTE(k, hash) + min32(ESP_POWERS, size / SEGMENT);
	j->key = index | segments << JOB_KEY_SEGMENTS_SHIFT;
}

/* A job, and what goes with it: where the frame of the packet to transmit begins. */
struct expected_job {
	struct job job;
	uint32_t addr;
};

/* Returns the job of a frame if its packet is of the expected SA and fills the frame: what to stage. JOB_NONE: the packet
 * is the host's. */
DEVICE_CALL struct expected_job expected_frame(const struct esp_key *keys, struct desc_word w, struct expected e)
{
	struct expected_job x = {{0, 0, 0, 0, 0, JOB_NONE}, w.low};
	const struct esp_key *k = keys + expected_key(&e);
	uint32_t len = w.high & 0xffff, open = e.high & EXPECT_OPEN;
	struct front front = front_of(k);

	if (open) {
		if (len <= ETHERNET_LEN + front.outer)
			return x;
		x.job.esp = (uint16_t)(ETHERNET_LEN + front.outer);
		set_expected_length(&x.job, k, expected_key(&e), len - ETHERNET_LEN - front.outer, 1);
		x.job.flags = JOB_OPEN;
		return x;
	}
	x.job.esp = (uint16_t)(ETHERNET_LEN + front.outer);
	set_expected_length(&x.job, k, expected_key(&e), len - ETHERNET_LEN, 0);
	if (w.low % FRAME_BYTES < front.all || w.low % FRAME_BYTES - front.all + x.job.esp + x.job.bytes > FRAME_BYTES)
		return x;
	x.addr = w.low - front.all;
	x.job.flags = (uint16_t)(JOB_SEAL | JOB_ENCAPSULATE | (e.most & EXPECT_EXTENDED ? JOB_EXTENDED : 0));
	if ((load32(&k->headers) & (HEADERS_IPV6 | HEADERS_UDP)) == (HEADERS_IPV6 | HEADERS_UDP))
		x.job.flags |= JOB_UDP_CHECKSUM;
	return x;
}

/* The job of a staged packet, or its result if it is not of the expected SA: job is JOB_NONE then. */
struct matched {
	struct job job;
	struct result result;
	uint32_t word; /* for the host: the packet's sequence number, or its length in bytes */
};

/* Matches a staged packet with the expected SA. header is a copy of its header, number its place in the batch. */
DEVICE_CALL struct matched match_expected(const uint64_t *policies, const uint64_t *spis, const struct esp_key *keys, struct job j, uint32_t *header,
					  struct desc_word w, struct expected e, uint32_t number, int clamp)
{
	uint32_t index = expected_key(&e);
	const struct esp_key *k = keys + index;
	struct matched c = {{0, 0, 0, 0, 0, JOB_NONE}, {0, 0, RESULT_HOST}, 0};

	if (e.high & EXPECT_OPEN) {
		struct found_job found = find_job(spis, keys, header, w.high & 0xffff);
		if ((found.job.flags & JOB_KIND) == JOB_OPEN && (found.job.key & JOB_KEY_MASK) == index && found.job.key <= j.key) {
			c.job = found.job;
			c.word = found.seq;
		}
		return c;
	}
	c.result = classify(policies, header, (uint8_t *)header + HEADER_IP, w, clamp);
	if (c.result.verdict != RESULT_NEEDS_SEQ || c.result.addr != load32(&k->tunnel) || c.result.len > (e.most & 0xffff))
		return c;
	uint64_t seq = ((uint64_t)(e.high & 0xffff) << 32 | e.low) + number;
	c.job = j;
	set_job_seq(&c.job, seq);
	c.word = c.result.len;
	set_expected_length(&c.job, k, index, c.result.len, 0);
	return c;
}

#endif
