/* What the router and its devices tell each other, packet by packet: the same as
 * batch/chunk.go, batch/verdict.go, batch/reason.go and fib/words.go. A test holds
 * the numbers against Go's. */
#ifndef WARPROUTE_LAYOUT_H
#define WARPROUTE_LAYOUT_H

#include "device.h"

/* A frame in the host's memory: of len bytes from the Ethernet header at addr on. */
struct frame {
	uint32_t addr;
	uint16_t len, port; /* port: that received it, with the router's marks above MAX_PORTS */
};

/* The answer for it. addr and len: forward, the frame that leaves; hold, addr is the
 * adjacency that is unresolved. */
struct result {
	uint32_t addr;
	uint16_t len, verdict;
};

/* A verdict is an action in the upper 4 bits, and a port or a reason to drop. */
#define ACTION_DROP 0
#define ACTION_FORWARD 1
#define ACTION_HOLD 2
#define MAX_PORTS 4096

DEVICE uint32_t verdict(uint32_t action, uint32_t argument) { return action << 12 | argument; }

/* Reasons to drop. There is none for what goes on. */
#define DROP_NONE 0
#define DROP_TOO_SHORT 1
#define DROP_ETHER_TYPE 2
#define DROP_IP_VERSION 3
#define DROP_HEADER_LENGTH 4
#define DROP_BAD_LENGTH 5
#define DROP_BAD_CHECKSUM 6
#define DROP_IP_OPTIONS 7
#define DROP_TTL_EXPIRED 8
#define DROP_SOURCE_MARTIAN 9
#define DROP_DEST_MARTIAN 10
#define DROP_FRAGMENT_OVERLAP 11
#define DROP_ROUTING_HEADER 12
#define DROP_EXTENSION_HEADERS 13
#define DROP_NO_ROUTE 14
#define DROP_BLACKHOLE 15
#define DROP_UNREACHABLE 16
#define DROP_PROHIBIT 17
#define DROP_LOCAL_DELIVERY 18
#define DROP_NO_PORT 19
#define DROP_PORT_DOWN 20
#define DROP_MTU_EXCEEDED 21
#define DROP_XFRM_IN_STATE_PROTO_ERROR 34
#define DROP_XFRM_IN_STATE_MODE_ERROR 35
#define DROP_XFRM_IN_DUMMY 40
#define DROP_XFRM_IN_ECN_ERROR 41
#define DROP_XFRM_OUT_STATE_PROTO_ERROR 47
#define DROP_REVERSE_PATH 52

/* A next-hop word: kind (8 bits), MTU of the route (16, 0 if it has none), 7 bits of 0,
 * whether index is of a group (1), index (32). */
#define KIND_NONE 0
#define KIND_FORWARD 1
#define KIND_LOCAL 2
#define KIND_BLACKHOLE 3
#define KIND_UNREACHABLE 4
#define KIND_PROHIBIT 5
#define KIND_NO_PORT 6

DEVICE uint32_t hop_kind(uint64_t word) { return (uint32_t)(word >> 56); }
DEVICE uint32_t hop_is_group(uint64_t word) { return word >> 32 & 1; }
DEVICE uint32_t hop_mtu(uint64_t word) { return word >> 40 & 0xffff; }
DEVICE uint32_t hop_zero(uint64_t word) { return word >> 33 & 1; } /* a bit of those that are always 0 */
DEVICE uint32_t hop_index(uint64_t word) { return (uint32_t)word; }

/* A group is adjacencies, from which a flow takes one by the upper bits of its hash. */
#define GROUP_BUCKETS 256

/* An adjacency word: the neighbour's MAC (48 bits, 0 if it is not resolved), port (16).
 * A port word: the port's MAC (48), MTU (16, 0 if it is down). */
DEVICE uint64_t word_mac(uint64_t word) { return word >> 16; }
DEVICE uint32_t adjacency_port(uint64_t word) { return word & 0xffff; }
DEVICE uint32_t port_mtu(uint64_t word) { return word & 0xffff; }

/* From which sources a port takes packets: a word with a byte for IPv6, and one for IPv4. */
#define ANY_SOURCE 0
#define LOOSE_SOURCE 1
#define STRICT_SOURCE 2

DEVICE uint32_t reverse_path_ipv4(uint32_t word) { return word & 0xff; }
DEVICE uint32_t reverse_path_ipv6(uint32_t word) { return word >> 8 & 0xff; }

/* What fits through a next hop by a port. A route without an MTU has the largest number
 * when 1 is taken away. */
DEVICE uint32_t limit_of(uint64_t hop, uint64_t port)
{
	return hop_mtu(hop) - 1 < port_mtu(port) ? hop_mtu(hop) : port_mtu(port);
}

#endif
