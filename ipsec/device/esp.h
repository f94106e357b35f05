/* An ESP packet of any suite, sealed or opened in place by a team of lanes: the same
 * bytes as package suite's Transform makes.
 *
 * All lanes of a team are given the same packet and key, and see what is in both. The
 * packet lies in shared memory, or wherever PACKET_LOAD reaches. The key is read by plain
 * loads: where a kernel outlives it, it has to be a copy in shared memory, for caches
 * may still have what was in its place before. */
#ifndef WARPROUTE_ESP_ESP_H
#define WARPROUTE_ESP_ESP_H

#include "cbc.h"
#include "chachapoly.h"
#include "ctr.h"
#include "gcm.h"
#include "hmac.h"
#include "team.h"

/* Writes the IV of a packet, the sequence number of which is in its header and in high,
 * as suite.PutIV does. One lane does it, before the packet is sealed. */
DEVICE void esp_put_iv(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p)
{
	uint32_t iv[4] = {0, 0, network(p->high), esp_header(p, 1)};

	if (k->cipher == ESP_CBC)
		aes_encrypt(t, esp_iv_schedule(k), 10, iv);
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		if (i < k->iv_words)
			PACKET_STORE(p->esp + ESP_HEADER_WORDS + i, iv[i + 4 - k->iv_words]);
}

/* Encrypts or decrypts the text, where the cipher does nothing else. */
DEVICE void esp_crypt(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open, uint32_t lane, uint32_t lanes)
{
	if (k->cipher == ESP_CTR) {
		ctr_lane(k, t, p, lane, lanes);
	} else if (k->cipher == ESP_CHACHA20) {
		chacha20_lane(k, p, lane, lanes);
	} else if (k->cipher == ESP_CBC && open) {
		uint32_t chain[4];
		cbc_begin_lane(k, p, lane, lanes, chain);
		team_join(lanes);
		cbc_decrypt_lane(k, t, p, lane, lanes, chain);
	} else if (k->cipher == ESP_CBC && lanes >= AES_COLUMNS) {
		cbc_encrypt_columns(k, t, p, lane < AES_COLUMNS, lane, lanes);
	} else if (k->cipher == ESP_CBC && lane == 0) {
		cbc_encrypt(k, t, p);
	}
}

/* Poly1305's of the ciphertext. */
DEVICE void esp_poly1305(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes, uint32_t icv[8])
{
	uint32_t sum[5], key[4];

	poly1305_lane(k, p, lane, lanes, sum, key);
	team_join(lanes); /* the last block was read beyond the text, where the ICV will be */
	UNROLL
	for (uint32_t i = 0; i < 5; i++)
		sum[i] = team_add(sum[i], lanes);
	poly1305_tag(sum, key, icv);
}

/* The ICV that the ciphertext should have, for lane 0. */
DEVICE void esp_authenticate(const struct esp_key *k, const struct esp_packet *p, uint32_t lane, uint32_t lanes, uint32_t icv[8])
{
	if (k->cipher == ESP_CHACHA20)
		esp_poly1305(k, p, lane, lanes, icv);
	else if (lane == 0)
		hmac(k, p, icv);
}

/* Both at once. */
DEVICE void esp_combined(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open,
			 uint32_t lane, uint32_t lanes, uint32_t icv[8])
{
	uint32_t sum[4], mask[4];

	gcm_lane(k, t, p, open, lane, lanes, sum, mask);
	team_join(lanes); /* as above */
	UNROLL
	for (uint32_t i = 0; i < 4; i++)
		sum[i] = team_xor(sum[i], lanes);
	gcm_tag(k, p, sum, mask, icv);
}

/* Writes the ICV, or, to open, compares it with the packet's: what differs is 0 if
 * nothing does, and takes the same time whatever does. */
DEVICE uint32_t esp_check_or_put(const struct esp_key *k, const struct esp_packet *p, int open, const uint32_t icv[8])
{
	const uint32_t words = k->icv_words;
	uint32_t *at = esp_icv(p, k), differs = 0;

	UNROLL
	for (uint32_t i = 0; i < 8; i++) {
		if (i >= words)
			continue;
		if (open)
			differs |= PACKET_LOAD(at + i) ^ icv[i];
		else
			PACKET_STORE(at + i, icv[i]);
	}
	return differs;
}

/* Has lane 0 do that; all lanes know the outcome. */
DEVICE uint32_t esp_finish(const struct esp_key *k, const struct esp_packet *p, int open, uint32_t lane, uint32_t lanes, const uint32_t icv[8])
{
	return team_xor(lane == 0 ? esp_check_or_put(k, p, open, icv) : 0, lanes);
}

/* Seals a packet, or opens it: then it is 0 if the packet is authentic. What is not
 * authentic is not decrypted, or, by GCM, decrypted to what nobody may see: it has to
 * be discarded. */
DEVICE uint32_t esp_process(const struct esp_key *k, const struct aes_tables *t, const struct esp_packet *p, int open, uint32_t lane, uint32_t lanes)
{
	uint32_t icv[8] = {0, 0, 0, 0, 0, 0, 0, 0}, differs = 0;

	if (k->cipher == ESP_GCM) {
		esp_combined(k, t, p, open, lane, lanes, icv);
		differs = esp_finish(k, p, open, lane, lanes, icv);
	} else {
		ROLL
		for (int crypt = !open, i = 0; i < 2 && !differs; i++, crypt = !crypt) {
			if (crypt) {
				esp_crypt(k, t, p, open, lane, lanes);
				team_join(lanes);
			} else {
				esp_authenticate(k, p, lane, lanes, icv);
				differs = esp_finish(k, p, open, lane, lanes, icv);
			}
		}
	}
	team_join(lanes);
	return differs;
}

#endif
