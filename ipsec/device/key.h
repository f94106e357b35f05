/* Key record of an SA: struct esp_key is Key of key.go, which describes the fields. Included by the
 * ciphers and HMAC. */
#ifndef WARPROUTE_ESP_KEY_H
#define WARPROUTE_ESP_KEY_H

#include "layout.h"
#include "words.h"

/* A segment: 16 bytes, which a lane loads at once. */
struct esp_segment {
	uint32_t w[4];
} __attribute__((aligned(16)));

struct esp_key {
	uint8_t cipher, auth, rounds, iv_words, icv_words, align_words;
	uint8_t hash, outer, iv, segments;
	uint8_t reserved[2];
	uint32_t salt;
	struct esp_segment body[ESP_ROUND_KEYS + ESP_POWERS]; /* the first is number 1; most keys end earlier */
	uint32_t tunnel, headers, spi, ports, dst[4], src[4], base[2], unused[2]; /* behind the segments */
};

CHECK_ESP_KEY_LAYOUT;

/* Returns a segment of a key by its number. */
DEVICE const struct esp_segment *esp_key_segment(const struct esp_key *k, uint32_t segment) { return k->body + segment - 1; }

DEVICE const struct esp_segment *esp_schedule(const struct esp_key *k) { return k->body; } /* or the key of ChaCha20 */
DEVICE const struct esp_segment *esp_powers(const struct esp_key *k) { return esp_key_segment(k, k->hash); }
DEVICE const struct esp_segment *esp_inner(const struct esp_key *k) { return esp_key_segment(k, k->hash); }
DEVICE const struct esp_segment *esp_outer(const struct esp_key *k) { return esp_key_segment(k, k->outer); }
DEVICE const struct esp_segment *esp_iv_schedule(const struct esp_key *k) { return esp_key_segment(k, k->iv); }

#endif
