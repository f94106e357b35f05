/* Policies of decrypted packets and of received plaintext: the common case of package gateway's checks. Offsets are
 * in bytes from w. Included by classify.h.
 *
 * The device does not check what ICMP errors quote (RFC 4301 section 6.2), and only recognizes packets that both policy
 * tables admit: decrypted by the tunnel that their policy names, and not to be encrypted again; or
 * admitted in plaintext, and to be encrypted. The host checks all others: fragments, ICMP, packets with
 * extension headers, ESP in ESP, and packets that a policy refuses. */
#ifndef WARPROUTE_POLICIES_H
#define WARPROUTE_POLICIES_H

#include "inner.h"

#define POLICY_DEVICE DEVICE
#define POLICY_LOAD(p) load32(p)
#include "../../../ipsec/policy/policy.h"

#define PROTOCOL_ICMP 1
#define PROTOCOL_ICMPV6 58
#define PROTOCOL_MOBILITY 135
#define PORT_NATT 4500

#define POLICY_HEADER_WORDS 16 /* in front of the inbound table; the first is the index of the outbound one */

DEVICE struct policy_key policy_key4(uint32_t addr) { return (struct policy_key){(uint64_t)bswap32(addr) << 32, 0}; }

DEVICE struct policy_key policy_key6(const uint32_t *w)
{
	return (struct policy_key){(uint64_t)bswap32(w[0]) << 32 | bswap32(w[1]), (uint64_t)bswap32(w[2]) << 32 | bswap32(w[3])};
}

/* Fills in the selectors of a packet. Returns 0 if the host has to check it. */
DEVICE int policy_flow_of(const uint32_t *w, const struct inner *in, struct policy_flow *f)
{
	const uint32_t *h = w + in->ip / 4;
	uint32_t l4 = IPV6_LEN;

	f->wide = in->type == ETHERTYPE_IPV6;
	if (f->wide) {
		f->src = policy_key6(h + 2);
		f->dst = policy_key6(h + 6);
		f->protocol = h[1] >> 16 & 0xff;
	} else {
		l4 = IPV4_LEN;
		f->src = policy_key4(h[3]);
		f->dst = policy_key4(h[4]);
		f->protocol = h[2] >> 8 & 0xff;
		if ((h[0] & 0xff) != 0x45 || bswap16(h[1] >> 16) & 0x3fff) /* options, or a fragment */
			return 0;
	}
	f->sport = f->dport = POLICY_NO_PORT;
	switch (f->protocol) {
	case PROTOCOL_TCP:
	case PROTOCOL_UDP:
	case PROTOCOL_DCCP:
	case PROTOCOL_SCTP:
	case PROTOCOL_UDPLITE:
		if (in->size < l4 + 4)
			return 0;
		f->sport = bswap16(h[l4 / 4] & 0xffff);
		f->dport = bswap16(h[l4 / 4] >> 16);
		return f->protocol != PROTOCOL_UDP || f->dport != PORT_NATT;
	case PROTOCOL_ICMP:
	case PROTOCOL_ICMPV6:
	case PROTOCOL_MOBILITY:
	case PROTOCOL_ESP:
	case PROTOCOL_HOP_BY_HOP:
	case PROTOCOL_ROUTING:
	case PROTOCOL_FRAGMENT:
	case PROTOCOL_AH:
	case PROTOCOL_DEST_OPTIONS:
		return 0;
	}
	return 1;
}

/* Returns whether the policies admit a packet that an SA of a tunnel has decrypted. */
DEVICE int policies_admit(const uint64_t *policies, const uint32_t *w, const struct inner *in, uint32_t tunnel)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)load64(policies);
	struct policy_flow f;

	if (!words || !policy_flow_of(w, in, &f))
		return 0;
	struct policy_match inbound = policy_lookup(words + POLICY_HEADER_WORDS, &f);
	if (inbound.policy < 0 || policy_action(inbound.verdict) != POLICY_PROTECT || policy_target(inbound.verdict) != tunnel)
		return 0;
	struct policy_match outbound = policy_lookup(words + load32(words), &f);
	return outbound.policy < 0 || policy_action(outbound.verdict) == POLICY_BYPASS;
}

#define NO_TUNNEL 0xffffffffu

/* Returns the tunnel by which a packet that was received in plaintext is to leave, or NO_TUNNEL. */
DEVICE uint32_t protecting_tunnel(const uint64_t *policies, const uint32_t *w, const struct inner *in)
{
	const uint32_t *words = (const uint32_t *)(uintptr_t)load64(policies);
	struct policy_flow f;

	if (!words || !policy_flow_of(w, in, &f))
		return NO_TUNNEL;
	struct policy_match outbound = policy_lookup(words + load32(words), &f);
	if (outbound.policy < 0 || policy_action(outbound.verdict) != POLICY_PROTECT)
		return NO_TUNNEL;
	struct policy_match inbound = policy_lookup(words + POLICY_HEADER_WORDS, &f);
	if (inbound.policy >= 0 && policy_action(inbound.verdict) != POLICY_BYPASS)
		return NO_TUNNEL;
	return policy_target(outbound.verdict);
}

#endif
