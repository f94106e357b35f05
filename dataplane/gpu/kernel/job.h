/* ESP jobs: the processing of a packet before its lookup. The host or the device (find_sa.h, expect.h, numbers.h) has resolved SAs and policies.
 * Included by staging.h and inner.h. */
#ifndef WARPROUTE_JOB_H
#define WARPROUTE_JOB_H

#include "device.h"
#include "layout.h"

#include "../../../ipsec/device/key.h"

/* Lengths and offsets are in bytes. */
struct job {
	uint32_t key;        /* index of the key record; from bit JOB_KEY_SEGMENTS_SHIFT on, the segments of it in use */
	uint32_t high;       /* upper half of a 64-bit sequence number; with JOB_ENCAPSULATE the lower half */
	uint16_t esp, bytes; /* offset of the SPI in the frame; length from there to the end of the ICV */
	uint16_t header;     /* open in transport mode: length of the IP headers in front of ESP; with JOB_ENCAPSULATE bits 32 to 47 of the sequence number */
	uint16_t flags;
};

#define JOB_KEY_MASK ((1u << JOB_KEY_SEGMENTS_SHIFT) - 1)

CHECK_JOB_LAYOUT;

/* The sequence numbers of an outbound SA that are lent to the device (numbers.h). */
struct sa_numbers {
	uint64_t next; /* NUMBERS_RETIRED and above: none is lent */
	uint64_t last; /* of those that are lent */
};

CHECK_SA_NUMBERS_LAYOUT;

/* Tables of a gateway in device memory, and the size of staging buffers: the second parameter of the gateway kernel. */
struct ipsec_tables {
	const struct esp_key *keys;
	const uint64_t *policies;   /* the address of the policies (policies.h) */
	const uint64_t *spis;       /* index of inbound SAs: SPI_SLOTS words, SPI << 32 | key; 0 ends a search */
	struct sa_numbers *numbers; /* by key */
	uint64_t *tunnels;          /* by number: the SA whose numbers are lent; key + 1, longest packet << 32, extended << SA_EXTENDED_SHIFT; 0: none */
	uint32_t *turns;            /* by worker, a sector each (numbers.h) */
	uint64_t staging_words;     /* of a warp's staging buffer */
};

CHECK_IPSEC_TABLES_LAYOUT;

#endif
