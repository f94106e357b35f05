/* Internet checksums (RFC 1071), equivalent to packet/checksum.go. Included by the packet parsers. */
#ifndef WARPROUTE_CHECKSUM_H
#define WARPROUTE_CHECKSUM_H

#include "packet.h"

/* Folds a sum of 16-bit words to 16 bits with end-around carry. */
DEVICE uint32_t fold(uint64_t sum)
{
	uint32_t low = (uint32_t)sum, high = (uint32_t)(sum >> 32);
	uint32_t s = (low >> 16) + (low & 0xffff) + (high >> 16) + (high & 0xffff);

	s = (s >> 16) + (s & 0xffff);
	return (s >> 16) + (s & 0xffff);
}

/* Returns the sum of n bytes of a frame as big-endian 16-bit words; an odd last byte is padded with
 * zero. Reads aligned 8-byte words and masks bytes outside the range; frame memory has room around
 * them. */
DEVICE uint32_t sum_bytes(const uint8_t *bytes, uint32_t n)
{
	uint32_t skew = (uintptr_t)bytes % 8, end = skew + n;
	const volatile uint64_t *words = (const volatile uint64_t *)(bytes - skew);
	uint64_t sum = 0;

	for (uint32_t at = 0; at < end; at += 8) {
		uint64_t word = words[at / 8];
		if (at < skew)
			word &= ~(uint64_t)0 << skew * 8;
		if (end - at < 8)
			word &= ~(uint64_t)0 >> (8 - (end - at)) * 8;
		sum += (word >> 32) + (uint32_t)word;
	}
	/* The sum is independent of byte order except for its own (RFC 1071, 2B). */
	return skew % 2 ? fold(sum) : bswap16(fold(sum));
}

/* A TCP or UDP segment: bytes l4 to end, and its pseudo-header. Offsets count from the packet's IP
 * header. */
struct l4_segment {
	uint32_t protocol;
	uint32_t addrs, addrs_len; /* source and destination, 8 or 32 bytes */
	uint32_t l4, end;
};

/* Completes a partial checksum of TCP or UDP: one left to NIC offload, whose field holds the sum of
 * the pseudo-header. Returns whether there was one. packet/checksum.go explains why this is safe. */
DEVICE int complete_l4_checksum(const struct packet *p, const struct l4_segment *s)
{
	uint32_t len = s->end - s->l4, field = s->l4 + (s->protocol == PROTOCOL_TCP ? 16 : 6);

	if ((s->protocol != PROTOCOL_TCP && s->protocol != PROTOCOL_UDP) || field + 2 > s->end)
		return 0;
	uint32_t held = half_at(p, field);
	if (held == 0) /* no pseudo-header sums to 0 */
		return 0;
	uint64_t pseudo = s->protocol + len;
	for (uint32_t i = 0; i < s->addrs_len; i += 2)
		pseudo += half_at(p, s->addrs + i);
	if (held != fold(pseudo))
		return 0;
	uint32_t sum = ~sum_bytes(p->ip + s->l4, len) & 0xffff;
	if (sum == 0 && s->protocol == PROTOCOL_UDP)
		sum = 0xffff; /* 0 would mean "no checksum" (RFC 768) */
	store_half(p, field, sum);
	return 1;
}

#endif
