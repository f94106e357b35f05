/* ESP jobs: the processing of a packet before its lookup. The host or the device (find_sa.h, expect.h, seq_assign.h) has resolved SAs and policies.
 * Included by esp_lane.h and inner.h. */
#ifndef WARPROUTE_JOB_H
#define WARPROUTE_JOB_H

#include "device.h"
#include "layout.h"

#include "../../../ipsec/device/key.h"

/* Lengths and offsets are in bytes. */
struct job {
	uint32_t key;        /* index of the key record; from bit JOB_KEY_SEGMENTS_SHIFT on, the segments of it in use */
	uint32_t seq_high;   /* upper half of a 64-bit sequence number; with JOB_ENCAPSULATE see job_seq_low */
	uint16_t esp, bytes; /* offset of the SPI in the frame; length from there to the end of the ICV */
	uint16_t ip_len;     /* open: length of the IP headers in front of ESP; with JOB_ENCAPSULATE see job_seq_high */
	uint16_t flags;
};

#define JOB_KEY_MASK ((1u << JOB_KEY_SEGMENTS_SHIFT) - 1)

CHECK_JOB_LAYOUT;

DEVICE uint32_t job_kind(const struct job *j) { return j->flags & JOB_KIND; }

/* The sequence number of a job with JOB_ENCAPSULATE: bits 0 to 31 are in seq_high, bits 32 to 47 in ip_len. */
DEVICE uint32_t job_seq_low(const struct job *j) { return j->seq_high; }
DEVICE uint32_t job_seq_high(const struct job *j) { return j->ip_len; }

DEVICE void set_job_seq(struct job *j, uint64_t seq)
{
	j->seq_high = (uint32_t)seq;
	j->ip_len = (uint16_t)(seq >> 32);
}

/* Leaves the upper half in seq_high, as without JOB_ENCAPSULATE. */
DEVICE void keep_seq_high(struct job *j) { j->seq_high = j->ip_len; }

/* The sequence numbers of an outbound SA that are lent to the device (seq_assign.h). */
struct sa_seqs {
	uint64_t next; /* SEQS_RETIRED and above: none is lent */
	uint64_t last; /* of those that are lent */
};

CHECK_SA_SEQS_LAYOUT;

/* A request of the host about the sequence numbers of an outbound SA, in place of a job (serve_request). The frame beside it has a
 * count of numbers in place of the address, and the longest packet to seal as its length. */
struct seq_request {
	uint32_t key;      /* of the SA, as in a job */
	uint32_t seq_low;  /* bits 0 to 31 of the last number to lend */
	uint16_t extended; /* 1: the SA has 64-bit sequence numbers */
	uint16_t tunnel;   /* of the SA */
	uint16_t seq_high; /* bits 32 to 47 of the last number to lend */
	uint16_t what;     /* REQUEST_LEND, REQUEST_EXTEND, REQUEST_TAKE or REQUEST_RETIRE */
};

CHECK_SEQ_REQUEST_LAYOUT;

/* Tables of a gateway in device memory (seqs and tunnels may be in that of another GPU), and sizes in shared memory: the second parameter of the gateway kernel. */
struct ipsec_tables {
	const struct esp_key *keys;
	const uint64_t *policies;   /* the address of the policies (policies.h) */
	const uint64_t *spis;       /* index of inbound SAs: SPI_SLOTS words, SPI << 32 | key; 0 ends a search */
	struct sa_seqs *seqs;       /* by key */
	uint64_t *tunnels;          /* by number: the SA whose numbers are lent; key + 1, longest packet << 32, extended << SA_EXTENDED_SHIFT; 0: none */
	uint32_t *now_serving;      /* of ticket locks, by worker, a sector each (ticket_lock.h) */
	uint64_t staging_words;     /* of a warp's staging buffer */
	uint64_t aes_bytes;         /* AES tables in shared memory: AES_BYTES, or AES_ENCRYPT_BYTES if there are no jobs to decrypt AES-CBC */
};

CHECK_IPSEC_TABLES_LAYOUT;

#endif
