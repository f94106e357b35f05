/* Key record of a security association: struct esp_key is Key of key.go, which describes fields and
 * parts. Included by the ciphers and HMAC. */
#ifndef WARPROUTE_ESP_KEY_H
#define WARPROUTE_ESP_KEY_H

#include "layout.h"
#include "words.h"

/* A 16-byte line, which a device loads at once. */
struct esp_block {
	uint32_t w[4];
} __attribute__((aligned(16)));

struct esp_key {
	uint8_t cipher, auth, rounds, iv_words, icv_words, align_words;
	uint8_t hash, outer, iv, lines;
	uint8_t reserved[2];
	uint32_t salt;
	struct esp_block parts[ESP_ROUND_KEYS + ESP_POWERS]; /* most keys end earlier */
};

CHECK_ESP_KEY_LAYOUT;

/* Returns the part of a key that begins at a line. */
DEVICE const struct esp_block *esp_part(const struct esp_key *k, uint32_t line) { return k->parts + line - 1; }

DEVICE const struct esp_block *esp_schedule(const struct esp_key *k) { return k->parts; } /* or the key of ChaCha20 */
DEVICE const struct esp_block *esp_powers(const struct esp_key *k) { return esp_part(k, k->hash); }
DEVICE const struct esp_block *esp_inner(const struct esp_key *k) { return esp_part(k, k->hash); }
DEVICE const struct esp_block *esp_outer(const struct esp_key *k) { return esp_part(k, k->outer); }
DEVICE const struct esp_block *esp_iv_schedule(const struct esp_key *k) { return esp_part(k, k->iv); }

#endif
