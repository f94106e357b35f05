/* What is to be done with a packet before it is looked up. The router has settled all
 * that needs its associations and policies; Go's jobs_unsafe.go has the same, and a test
 * holds the two together. */
#ifndef WARPROUTE_JOB_H
#define WARPROUTE_JOB_H

#include "device.h"

#include "../../../ipsec/device/key.h"

/* Lengths and places are in bytes. */
struct job {
	uint32_t key;        /* the record's number, and from bit JOB_LINES on how many lines of it the packet needs */
	uint32_t high;       /* upper half of the sequence number */
	uint16_t esp, bytes; /* from the SPI, counted from the frame's beginning, to the end of the ICV */
	uint16_t header;     /* open in transport mode: of the IP headers in front of ESP */
	uint16_t flags;
};

#define JOB_LINES 24
#define JOB_NUMBER ((1u << JOB_LINES) - 1)

#define JOB_KIND 3    /* one of these: */
#define JOB_PLAIN 0   /* nothing to be done */
#define JOB_SETTLED 1 /* nothing at all, not looked up either */
#define JOB_SEAL 2    /* all is there but CBC's IV, of which the nonce is, ciphertext, ICV and UDP's checksum */
#define JOB_OPEN 3
#define JOB_EXTENDED 4  /* sequence numbers have 64 bits */
#define JOB_TRANSPORT 8 /* open: in transport mode */
#define JOB_SUM 16      /* seal: UDP in front of ESP wants its checksum, in IPv6 */
#define JOB_DETAIL 5    /* open: from this bit on, the outer type of service, or in transport mode where the next header stands */

#define JOB_FORGED 1 /* as the length of a dropped packet: it is not authentic */

#define GATEWAY_SHARED 107536 /* bytes of shared memory that a block of the gateway kernel has, without stages */

/* Where jobs and keys are, and what a warp has to work with. */
struct vault {
	const struct esp_key *keys;
	const struct job *jobs; /* one for each packet of each slot, as results */
	uint32_t slot_jobs;     /* from one slot's to the next one's */
	uint32_t stage_words;   /* of a warp's stage */
};

#endif
