/* Policies of both directions for received plaintext, for tiles with CLASSIFY: the host posts frames without having
 * read them, and the device finds the tunnel of each. Without ASSIGN_SEQS, the host then takes sequence numbers in
 * the order of packets, and posts the packets again with jobs. Included by esp_batch.h.
 *
 * The device classifies packets in their common form: valid, without IP options, extension headers or
 * fragmentation, not ICMP, to be protected, and from a port whose packets may enter in plaintext. All
 * others are the host's (RESULT_HOST). */
#ifndef WARPROUTE_CLASSIFY_H
#define WARPROUTE_CLASSIFY_H

#include "policies.h"

#define TCP_FLAGS_AT 13 /* offset in the TCP header */
#define TCP_SYN 2

/* Returns whether the device may process a received frame before the host has read it, plaintext or ESP. Frames with
 * marks are not as they were received; those that cross a boundary are large. */
DEVICE int may_classify(struct desc_word w)
{
	uint32_t len = w.high & 0xffff;

	return w.high >> 16 < MAX_PORTS && w.low % 4 == 2 && len >= ETHERNET_LEN && w.low % FRAME_BYTES + len <= FRAME_BYTES;
}

/* Returns whether a TCP segment may have an MSS option for the host to lower. SYN flags of IPv6 packets are
 * beyond the header copy. */
DEVICE int may_have_mss(const struct packet *p, int ipv4)
{
	return p->protocol == PROTOCOL_TCP && (!ipv4 || byte_at(p, p->l4 + TCP_FLAGS_AT) & TCP_SYN);
}

/* Returns the result of a frame's packet: RESULT_NEEDS_SEQ with the tunnel as its address and the length of the
 * packet, or RESULT_HOST. header is a copy of its header, ip points to its IP header. clamp: packets whose
 * MSS option the host may lower are RESULT_HOST with tunnel and length; others with RESULT_HOST have length 0. */
DEVICE_CALL struct result classify(const uint64_t *policies, uint32_t *header, uint8_t *ip, struct desc_word w, int clamp)
{
	struct packet p = {header, copied_bytes(w.low), ip, 0, 0, 0, 0};
	struct result r = {0, 0, RESULT_HOST};
	int ipv4;

	if (validate(&p, w.high & 0xffff, &ipv4) != DROP_NONE || p.fragment || p.l4 != (ipv4 ? IPV4_LEN : IPV6_LEN))
		return r;
	struct inner in = {HEADER_IP, p.size, ipv4 ? ETHERTYPE_IPV4 + 0u : ETHERTYPE_IPV6 + 0u};
	uint32_t tunnel = protecting_tunnel(policies, header, &in);
	if (tunnel != NO_TUNNEL)
		r = (struct result){tunnel, (uint16_t)p.size, (uint16_t)(clamp && may_have_mss(&p, ipv4) ? RESULT_HOST : RESULT_NEEDS_SEQ)};
	return r;
}

/* Classifies the packets of a warp batch by their headers. */
DEVICE void classify_batch(const struct mailbox *m, const struct tile *tile, const struct ipsec_tables *ipsec,
			   struct warp_scratch *scratch, struct desc_word w, int clamp)
{
	int received = has_packet(tile);
	int mine = received && may_classify(w) && !may_be_partial(&m->tables, (w.high >> 16) % MAX_PORTS);
	struct header_segments h = read_headers(tile, w, mine);

	fill_headers(scratch, &h);
	fill_ports(tile, scratch, w, mine);
	__syncwarp();
	if (received) {
		struct result r = {0, 0, RESULT_HOST};
		if (mine)
			r = classify(ipsec->policies, header_row(scratch, lane_id()), tile->umem + w.low + ETHERNET_LEN, w, clamp);
		store_result(m, tile, r);
	}
	__syncwarp();
}

#endif
