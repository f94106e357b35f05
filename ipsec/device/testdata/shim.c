/* shim: emulated lanes. Reads requests from standard input, runs each in a subwarp, and
 * writes the results to standard output.
 *
 * A lane runs until it waits for the others, then the next lane runs. The packet and the key of a
 * request end at an inaccessible page, so that an overrun faults. */
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../esp.h"

#define LANES 32
#define STACK 65536
#define ROOM 4096

enum { SEAL, OPEN, ENCRYPT_IV, FITS, AES_ENCRYPT, AES_DECRYPT, GHASH, CHACHA20, POLY1305, POLY1305_MULTIPLY, POLY1305_TAG };

struct request {
	uint32_t operation, lanes, bytes, extended, high, counter;
	uint32_t key_bytes, padding;
};

static struct request request;
static const struct esp_key *key;
static struct aes_tables tables;
static uint32_t *packet;

static ucontext_t first[LANES];
static jmp_buf scheduler, lanes[LANES];
static char stacks[LANES][STACK] __attribute__((aligned(64)));
static uint32_t running, values[LANES], results[LANES];
static int started[LANES], done[LANES];

static void subwarp_sync(uint32_t n)
{
	(void)n;
	if (!_setjmp(lanes[running]))
		_longjmp(scheduler, 1);
}

static uint32_t subwarp_shfl_xor(uint32_t v, uint32_t distance, uint32_t n)
{
	values[running] = v;
	subwarp_sync(n);
	v = values[running ^ distance];
	subwarp_sync(n);
	return v;
}

static uint32_t subwarp_rotate(uint32_t v, uint32_t n, uint32_t width, uint32_t of)
{
	values[running] = v;
	subwarp_sync(of);
	v = values[running / width * width + (running + n) % width];
	subwarp_sync(of);
	return v;
}

/* Encrypts or decrypts the text with ciphers that do not authenticate. */
static void crypt_text(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open, uint32_t lane, uint32_t lanes)
{
	if (k->cipher == ESP_CTR) {
		ctr_lane(k, t, p, lane, lanes);
	} else if (k->cipher == ESP_CHACHA20) {
		chacha20_lane(k, p, lane, lanes);
	} else if (k->cipher == ESP_CBC && open) {
		uint32_t chain[4];
		cbc_begin_lane(k, p, lane, lanes, chain);
		subwarp_sync(lanes);
		cbc_decrypt_lane(k, t, p, lane, lanes, chain);
	} else if (k->cipher == ESP_CBC) {
		cbc_encrypt_columns(k, t, p, lane < AES_COLUMNS, lane, lanes);
	}
}

/* Encrypts or decrypts by GCM, and computes the ICV of the ciphertext, for lane 0. */
static void gcm(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open, uint32_t lane, uint32_t lanes, uint32_t icv[8])
{
	uint32_t sum[4] = {0, 0, 0, 0}, mask[4] = {0, 0, 0, 0};

	if (lane < GCM_LANES)
		gcm_lane(k, t, p, open, lane, min32(lanes, GCM_LANES), sum, mask);
	subwarp_sync(lanes); /* the last block was read beyond the text, where the ICV will be */
	for (uint32_t i = 0; i < 4; i++)
		sum[i] = subwarp_xor(sum[i], lanes);
	gcm_tag(k, p, sum, mask, icv);
}

/* Computes the ICV of the ciphertext, for lane 0. */
static void authenticate(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes, uint32_t icv[8])
{
	if (k->cipher == ESP_CHACHA20)
		esp_poly1305(k, p, lane, lanes, icv);
	else if (lane == 0)
		hmac(k, p, icv);
}

/* Seals or opens a packet. Returns 0 if it is authentic. A packet that is not authentic is not
 * decrypted, except by GCM; the caller discards it. */
static uint32_t process(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open, uint32_t lane, uint32_t lanes)
{
	uint32_t icv[8] = {0, 0, 0, 0, 0, 0, 0, 0}, differs = 0;

	if (k->cipher == ESP_GCM) {
		gcm(k, t, p, open, lane, lanes, icv);
		differs = esp_finish(k, p, open, lane, lanes, icv);
	} else {
		for (int crypt = !open, i = 0; i < 2 && !differs; i++, crypt = !crypt) {
			if (crypt) {
				crypt_text(k, t, p, open, lane, lanes);
				subwarp_sync(lanes);
			} else {
				authenticate(k, p, lane, lanes, icv);
				differs = esp_finish(k, p, open, lane, lanes, icv);
			}
		}
	}
	subwarp_sync(lanes);
	return differs;
}

static void lane(void)
{
	const struct request *q = &request;
	struct esp_packet p;

	results[running] = ~0u;
	if (esp_packet_at(&p, key, packet, q->bytes, q->extended, q->high))
		results[running] = process(key, &tables, &p, q->operation == OPEN, running, q->lanes);
	done[running] = 1;
	_longjmp(scheduler, 1);
}

/* Resumes a lane until it waits or ends. Only the first start uses setcontext, which is slow. */
static __attribute__((noinline)) void go_on(void)
{
	if (_setjmp(scheduler))
		return;
	if (started[running])
		_longjmp(lanes[running], 1);
	started[running] = 1;
	setcontext(&first[running]);
}

static __attribute__((noinline)) void prepare(uint32_t i)
{
	started[i] = done[i] = 0;
	getcontext(&first[i]);
	first[i].uc_stack.ss_sp = stacks[i];
	first[i].uc_stack.ss_size = STACK;
	makecontext(&first[i], lane, 0);
}

/* Runs the request in a subwarp, and returns their common result. */
static uint32_t work(void)
{
	uint32_t ended = 0, n = request.lanes;

	for (uint32_t i = 0; i < n; i++)
		prepare(i);
	while (ended == 0) {
		for (running = 0; running < n; running++) {
			go_on();
			ended += done[running];
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		if (ended != n || results[i] != results[0]) {
			fprintf(stderr, "shim: lanes of a subwarp returned different results\n");
			exit(1);
		}
	}
	return results[0];
}

/* Authenticates the message behind a 32-byte key, in whole blocks. */
static void poly1305(void)
{
	uint32_t r[5], sum[5] = {0, 0, 0, 0, 0};

	poly1305_key(packet, r);
	for (uint32_t at = 8; at < request.bytes / 4; at += 4) {
		poly1305_add(sum, packet + at, 1);
		poly1305_multiply(sum, r);
	}
	poly1305_tag(sum, packet + 4, packet);
}

static uint32_t serve(void)
{
	const struct request *q = &request;
	struct esp_packet p;

	switch (q->operation) {
	case SEAL:
	case OPEN:
		return work();
	case ENCRYPT_IV:
		if (!esp_packet_at(&p, key, packet, q->bytes, q->extended, q->high))
			return ~0u;
		esp_encrypt_iv(key, &tables, &p);
		return 0;
	case FITS: /* of a packet at any byte offset, which is not accessed */
		return (uint32_t)esp_packet_at(&p, key, (uint8_t *)packet + q->high, q->counter, 0, 0);
	case AES_ENCRYPT:
		aes_encrypt(&tables, esp_schedule(key), key->rounds, packet);
		return 0;
	case AES_DECRYPT:
		aes_decrypt(&tables, esp_schedule(key), key->rounds, packet);
		return 0;
	case GHASH: {
		struct esp_segment power;
		memcpy(&power, packet + 4, sizeof power);
		ghash_multiply(packet, &power);
		return 0;
	}
	case CHACHA20: {
		const uint32_t nonce[3] = {packet[0], packet[1], packet[2]};
		chacha20_block(esp_schedule(key)[0].w, esp_schedule(key)[1].w, q->counter, nonce, packet);
		return 0;
	}
	case POLY1305:
		poly1305();
		return 0;
	case POLY1305_MULTIPLY:
		poly1305_multiply(packet, packet + 5);
		return 0;
	case POLY1305_TAG:
		poly1305_tag(packet, packet + 5, packet + 5);
		return 0;
	}
	fprintf(stderr, "shim: operation %u is not known\n", q->operation);
	exit(1);
}

/* Maps memory that ends at an inaccessible page. Returns its end. */
static uint8_t *end_of_memory(void)
{
	uint8_t *room = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (room == MAP_FAILED || mprotect(room + ROOM, ROOM, PROT_NONE) < 0) {
		fprintf(stderr, "shim: map memory for packets and keys: %s\n", strerror(errno));
		exit(1);
	}
	return room + ROOM;
}

/* Reads bytes so that they end at end. */
static void *read_to(uint8_t *end, uint32_t bytes)
{
	if (bytes > ROOM || fread(end - bytes, 1, bytes, stdin) != bytes) {
		fprintf(stderr, "shim: read a packet or a key of %u bytes\n", bytes);
		exit(1);
	}
	return end - bytes;
}

int main(void)
{
	static uint32_t encrypt[AES_ENCRYPT_WORDS], decrypt[AES_DECRYPT_WORDS], inverse[AES_INVERSE_WORDS];
	uint8_t *keys_end = end_of_memory(), *packets_end = end_of_memory();

	for (uint32_t thread = 0; thread < 3; thread++) {
		aes_fill_encrypt(encrypt, thread, 3);
		aes_fill_decrypt(decrypt, inverse, thread, 3);
	}
	tables = aes_tables_of(encrypt, decrypt, inverse, 0);
	while (fread(&request, sizeof request, 1, stdin) == 1) {
		if (request.lanes > LANES) {
			fprintf(stderr, "shim: a request for %u lanes\n", request.lanes);
			return 1;
		}
		key = read_to(keys_end, request.key_bytes);
		packet = read_to(packets_end, request.bytes);
		uint32_t result = serve();
		fwrite(&result, sizeof result, 1, stdout);
		fwrite(packet, 1, request.bytes, stdout);
	}
	return fflush(stdout) != 0;
}
