/* Words of the forwarding tables, as fib/words.go defines them. Included by decide.h and
 * reverse_path.h. */
#ifndef WARPROUTE_FIB_H
#define WARPROUTE_FIB_H

#include "device.h"
#include "layout.h"

/* A next-hop word: kind (8 bits), route MTU (16, 0 for none), 7 bits that the device
 * ignores but for bit 33, which is 0 (load_generation), ECMP flag (1), index of
 * an adjacency or ECMP group (32). */
DEVICE uint32_t hop_kind(uint64_t word) { return (uint32_t)(word >> HOP_KIND_SHIFT); }
DEVICE uint32_t hop_is_group(uint64_t word) { return word >> HOP_GROUP_SHIFT & 1; }
DEVICE uint32_t hop_mtu(uint64_t word) { return word >> HOP_MTU_SHIFT & 0xffff; }
DEVICE uint32_t hop_dependency(uint64_t word) { return word >> HOP_ZERO_SHIFT & 1; } /* a zero bit: see load_generation */
DEVICE uint32_t hop_index(uint64_t word) { return (uint32_t)word; }

/* An adjacency word: the neighbor's MAC (48 bits, 0 if unresolved), a flag that the port has a tag (1), 3 bits that are 0
 * (load_generation), port (12). A port word: the port's MAC (48), MTU (16, 0 if down). */
DEVICE uint64_t word_mac(uint64_t word) { return word >> WORD_MAC_SHIFT; }
DEVICE uint32_t adjacency_port(uint64_t word) { return word % MAX_PORTS; }
DEVICE uint32_t adjacency_is_tagged(uint64_t word) { return word >> ADJACENCY_TAGGED_SHIFT & 1; }
DEVICE uint32_t adjacency_dependency(uint64_t word) { return word >> ADJACENCY_ZERO_SHIFT & 1; }
DEVICE uint32_t port_mtu(uint64_t word) { return word & 0xffff; }

/* An ingress word, of a port for received packets: the reverse-path filter modes (RFC 3704), a byte for IPv4, then
 * one for IPv6, and the VRF in whose tables destinations and sources are looked up (15), 0 for none. */
DEVICE uint32_t reverse_path_ipv4(uint32_t word) { return word & 0xff; }
DEVICE uint32_t reverse_path_ipv6(uint32_t word) { return word >> 8 & 0xff; }
DEVICE uint32_t ingress_vrf(uint32_t word) { return word >> PORT_VRF_SHIFT; }

/* Returns the MTU of a next hop through a port. A route without an MTU has the largest number after
 * subtracting 1. */
DEVICE uint32_t limit_of(uint64_t hop, uint64_t port)
{
	return hop_mtu(hop) - 1 < port_mtu(port) ? hop_mtu(hop) : port_mtu(port);
}

#endif
