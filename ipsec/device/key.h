/* The keys of a security association, as package device prepares them: Key of
 * key.go, which says what the fields are and which parts there are. */
#ifndef WARPROUTE_ESP_KEY_H
#define WARPROUTE_ESP_KEY_H

#include "words.h"

/* Ciphers and authentication, as package suite numbers them. */
#define ESP_NULL 0
#define ESP_CBC 1
#define ESP_CTR 2
#define ESP_GCM 3
#define ESP_CHACHA20 4

#define ESP_COMBINED 0
#define ESP_SHA1 1
#define ESP_SHA256 2
#define ESP_SHA512 3

#define ESP_ROUND_KEYS 15 /* of AES with a key of 32 bytes */
#define ESP_POWERS 32 /* of GHASH's key: the most lanes that work on a packet together */

/* A line: four words, which a device loads at once. */
struct esp_block {
	uint32_t w[4];
} __attribute__((aligned(16)));

struct esp_key {
	uint8_t cipher, auth, rounds, iv_words, icv_words, align_words;
	uint8_t hash, outer, iv, lines;
	uint8_t reserved[2];
	uint32_t salt;
	struct esp_block parts[ESP_ROUND_KEYS + ESP_POWERS]; /* most keys end before */
};

/* The part of a key that begins at a line. */
DEVICE const struct esp_block *esp_part(const struct esp_key *k, uint32_t line) { return k->parts + line - 1; }

DEVICE const struct esp_block *esp_schedule(const struct esp_key *k) { return k->parts; } /* or the key of ChaCha20 */
DEVICE const struct esp_block *esp_powers(const struct esp_key *k) { return esp_part(k, k->hash); }
DEVICE const struct esp_block *esp_inner(const struct esp_key *k) { return esp_part(k, k->hash); }
DEVICE const struct esp_block *esp_outer(const struct esp_key *k) { return esp_part(k, k->outer); }
DEVICE const struct esp_block *esp_iv_schedule(const struct esp_key *k) { return esp_part(k, k->iv); }

#endif
