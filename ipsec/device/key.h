/* The keys of a security association, as package device prepares them: Key of
 * key.go, which says what the fields are. */
#ifndef WARPROUTE_ESP_KEY_H
#define WARPROUTE_ESP_KEY_H

#include <stdint.h>

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

#define ESP_POWERS 32 /* of GHASH's key: the most lanes that work on a packet together */

/* Four words, which a device loads at once. */
struct esp_block {
	uint32_t w[4];
} __attribute__((aligned(16)));

struct esp_key {
	uint8_t cipher, auth, rounds, iv_words, icv_words, align_words;
	uint8_t reserved[6];
	uint32_t salt;
	struct esp_block encrypt[15];
	union {
		struct esp_block powers[ESP_POWERS]; /* GCM */
		struct {
			uint32_t inner[16];
			uint32_t outer[16];
			struct esp_block iv[11];
			struct esp_block decrypt[15];
		};
	};
};

#endif
