//go:build ignore

// SPDX-License-Identifier: Apache-2.0
//
// The XDP program of a port. It hands to Linux what is Linux's, and every other
// frame to the AF_XDP socket of the queue that the frame arrived on.
//
// What goes to Linux, in the order of the tests:
//
//   - frames with a VLAN tag, and frames that are neither IPv4 nor IPv6 (ARP, LLDP, ...)
//   - frames to another MAC address than the port's, broadcast and multicast included
//   - IPv4 with options
//   - packets to multicast groups, and to 255.255.255.255
//   - IPv6 from or to link-local addresses
//   - packets to an address in local4 or local6: the host's own, and the
//     directed broadcasts of its subnets, which the control plane adds; of a
//     gateway all but ESP, as it is or in UDP, and fragments of these
//   - packets from such an address, which Linux refuses unless its settings say otherwise
//   - neighbour discovery (RFC 4861 4, ICMPv6 types 133 to 137)
//
// A gateway passes to Linux only what is addressed to this host, to a group or to a
// link-local address. Linux might forward any other packet past the policies, so it is
// dropped: with IPv4 options, from a link-local or from an own address, neighbour
// discovery, in a frame to another MAC address, or behind a VLAN tag. At most two tags
// are read; frames with more, and MPLS, are dropped whole. Frames that carry neither
// IPv4 nor IPv6 (ARP, LLDP, LACP, ...) go to Linux, tagged or not.
//
// A frame that is too short for its headers, or of another IP version than its
// EtherType says, goes to the socket: the engine drops it and names the reason.
// Nothing of the socket's goes to Linux: a queue without a socket drops its
// frames, because Linux might forward them past the router's policies.
//
// A tag that the NIC or a veth's sender stripped before XDP is not seen here.
// ("ethtool -K IFACE rxvlan off", for veth "txvlan off" at the peer, keeps it in
// the frame.)

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/types.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Go's Decision is generated from this enum.
enum decision {
	TO_SOCKET,
	NO_SOCKET, // was to go to the socket of a queue that has none: dropped
	// Dropped by a gateway: Linux might forward the packet past the policies.
	TRANSIT_VLAN,
	TRANSIT_ETHER_TYPE,
	TRANSIT_OTHER_MAC,
	TRANSIT_IPV4_OPTIONS,
	TRANSIT_LINK_LOCAL,
	TRANSIT_OWN_SOURCE,
	TRANSIT_NEIGHBOR_DISCOVERY,
	// The rest go to Linux.
	VLAN,
	ETHER_TYPE,
	OTHER_MAC,
	IPV4_OPTIONS,
	MULTICAST,
	BROADCAST,
	LINK_LOCAL,
	LOCAL,
	OWN_SOURCE,
	NEIGHBOR_DISCOVERY,
	DECISIONS,
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1); // set to the number of queues before loading
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

// Addresses of this host, shared by the programs of all ports.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __be32);
	__type(value, __u8);
} local4 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct in6_addr);
	__type(value, __u8);
} local6 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, DECISIONS);
	__type(key, enum decision);
	__type(value, __u64);
} frames SEC(".maps");

// The port's MAC address, first byte lowest. Until user space has set it, its
// upper 16 bits keep every frame from matching, so that Linux has them all.
volatile __u64 port_mac = ~0ULL;

// Whether the router is an IPsec gateway: ESP to this host goes to its sockets, and
// Linux gets no packet that it might forward.
volatile __u32 gateway = 0;

#define PORT_NATT 4500 // of IKE and of ESP in UDP, which begins with an SPI (RFC 3948)

// Tells whether what begins at l4, and is no later fragment, is ESP, of which
// keepalives are none.
static __always_inline int is_esp(__u8 protocol, void *l4, void *end)
{
	struct {
		struct udphdr udp;
		__be32 spi, sequence;
	} __attribute__((packed)) *natt = l4;

	if (protocol == IPPROTO_ESP)
		return 1;
	return protocol == IPPROTO_UDP && (void *)(natt + 1) <= end &&
	       natt->udp.dest == bpf_htons(PORT_NATT) && natt->spi != 0;
}

// What the fragments of a datagram have in common (RFC 791 3.2, RFC 8200 4.5). IPv4's
// addresses are in the first words.
struct datagram {
	__be32 src[4], dst[4], id;
};

// Datagrams to this host whose first fragment has shown ESP in UDP, and when it did, in
// nanoseconds; shared by the programs of all ports. Where later fragments overtake the
// first, Linux has them and the datagram is lost.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct datagram);
	__type(value, __u64);
} in_udp SEC(".maps");

#define FRAGMENTS_FOR 2000000000ULL // nanoseconds that a worker waits for the others

// Tells whether a fragment is of ESP. Only the first shows the ports of UDP.
static __always_inline int is_esp_fragment(struct datagram *d, __u8 protocol, int later, void *l4, void *end)
{
	__u64 now = bpf_ktime_get_ns(), *since;

	if (protocol != IPPROTO_UDP)
		return protocol == IPPROTO_ESP;
	if (later) {
		since = bpf_map_lookup_elem(&in_udp, d);
		return since && now - *since < FRAGMENTS_FOR;
	}
	if (is_esp(protocol, l4, end))
		return !bpf_map_update_elem(&in_udp, d, &now, BPF_ANY);
	bpf_map_delete_elem(&in_udp, d);
	return 0;
}

static __always_inline int takes_ipv4(struct iphdr *ip, void *end)
{
	struct datagram d = { { ip->saddr }, { ip->daddr }, ip->id };

	if (!gateway)
		return 0;
	if (!(ip->frag_off & bpf_htons(0x3fff)))
		return is_esp(ip->protocol, ip + 1, end);
	return is_esp_fragment(&d, ip->protocol, ip->frag_off & bpf_htons(0x1fff), ip + 1, end);
}

static __always_inline int takes_ipv6(struct ipv6hdr *ip, void *end)
{
	struct {
		__u8 next, reserved;
		__be16 offset;
		__be32 id;
	} *fragment = (void *)(ip + 1);
	struct datagram d;

	if (!gateway)
		return 0;
	if (ip->nexthdr != IPPROTO_FRAGMENT)
		return is_esp(ip->nexthdr, ip + 1, end);
	if ((void *)(fragment + 1) > end)
		return 0;
	__builtin_memcpy(d.src, &ip->saddr, sizeof(d.src));
	__builtin_memcpy(d.dst, &ip->daddr, sizeof(d.dst));
	d.id = fragment->id;
	return is_esp_fragment(&d, fragment->next, fragment->offset & bpf_htons(0xfff8), fragment + 1, end);
}

// One bit for every 16-bit fold of an address in local4 or local6. Most packets
// are to none of them, and one load spares them the hash.
volatile __u64 local_folds[1 << 10];

static __always_inline int may_be_local(__u32 address)
{
	__u16 fold = address ^ address >> 16;

	return local_folds[fold >> 6] >> (fold & 63) & 1;
}

static __always_inline int is_local4(__be32 address)
{
	return may_be_local(address) && bpf_map_lookup_elem(&local4, &address);
}

static __always_inline int is_group4(__be32 address)
{
	return (address & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000);
}

// Reports whether an IPv4 packet is for this host or for a group, so that Linux does not
// forward it. A header that is cut short is not.
static __always_inline int is_for_host4(struct iphdr *ip, void *end)
{
	if ((void *)(ip + 1) > end || ip->version != 4)
		return 0;
	return is_group4(ip->daddr) || ip->daddr == bpf_htonl(INADDR_BROADCAST) || is_local4(ip->daddr);
}

static __always_inline enum decision decide_ipv4(void *data, void *end)
{
	struct iphdr *ip = data;

	if ((void *)(ip + 1) > end || ip->version != 4)
		return TO_SOCKET;
	if (ip->ihl > 5)
		return gateway && !is_for_host4(ip, end) ? TRANSIT_IPV4_OPTIONS : IPV4_OPTIONS;
	if (is_group4(ip->daddr))
		return MULTICAST;
	if (ip->daddr == bpf_htonl(INADDR_BROADCAST))
		return BROADCAST;
	if (is_local4(ip->daddr))
		return takes_ipv4(ip, end) ? TO_SOCKET : LOCAL;
	if (is_local4(ip->saddr))
		return gateway ? TRANSIT_OWN_SOURCE : OWN_SOURCE;
	return TO_SOCKET;
}

static __always_inline int is_link_local(const struct in6_addr *a)
{
	return (a->s6_addr16[0] & bpf_htons(0xffc0)) == bpf_htons(0xfe80);
}

static __always_inline __u32 words(const struct in6_addr *a)
{
	return a->s6_addr32[0] ^ a->s6_addr32[1] ^ a->s6_addr32[2] ^ a->s6_addr32[3];
}

static __always_inline int is_local6(struct in6_addr *a)
{
	return may_be_local(words(a)) && bpf_map_lookup_elem(&local6, a);
}

// Reports the same of an IPv6 packet. Link-local addresses are not routed (RFC 4291 2.5.6).
static __always_inline int is_for_host6(struct ipv6hdr *ip, void *end)
{
	if ((void *)(ip + 1) > end || ip->version != 6)
		return 0;
	return ip->daddr.s6_addr[0] == 0xff || is_link_local(&ip->daddr) || is_local6(&ip->daddr);
}

static __always_inline enum decision decide_ipv6(void *data, void *end)
{
	struct ipv6hdr *ip = data;
	__u8 *icmp_type = (void *)(ip + 1);

	if ((void *)(ip + 1) > end || ip->version != 6)
		return TO_SOCKET;
	if (ip->daddr.s6_addr[0] == 0xff)
		return MULTICAST;
	if (is_link_local(&ip->daddr))
		return LINK_LOCAL;
	if (is_link_local(&ip->saddr))
		return gateway && !is_for_host6(ip, end) ? TRANSIT_LINK_LOCAL : LINK_LOCAL;
	if (is_local6(&ip->daddr))
		return takes_ipv6(ip, end) ? TO_SOCKET : LOCAL;
	if (is_local6(&ip->saddr))
		return gateway ? TRANSIT_OWN_SOURCE : OWN_SOURCE;
	if (ip->nexthdr == IPPROTO_ICMPV6 && (void *)(icmp_type + 1) <= end &&
	    *icmp_type >= 133 && *icmp_type <= 137)
		return gateway ? TRANSIT_NEIGHBOR_DISCOVERY : NEIGHBOR_DISCOVERY;
	return TO_SOCKET;
}

static __always_inline int is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

static __always_inline int is_mpls(__be16 type)
{
	return type == bpf_htons(ETH_P_MPLS_UC) || type == bpf_htons(ETH_P_MPLS_MC);
}

// Reports whether what follows an EtherType is nothing that Linux might forward.
static __always_inline int is_for_host(__be16 type, void *data, void *end)
{
	if (type == bpf_htons(ETH_P_IP))
		return is_for_host4(data, end);
	if (type == bpf_htons(ETH_P_IPV6))
		return is_for_host6(data, end);
	return !is_tag(type) && !is_mpls(type);
}

// Reports the same of a frame with a VLAN tag, or two (802.1ad).
static __always_inline int is_tagged_for_host(void *data, void *end)
{
	struct {
		__be16 tci, type;
	} *tag = data;

	if ((void *)(tag + 1) > end)
		return 0;
	if (!is_tag(tag->type))
		return is_for_host(tag->type, tag + 1, end);
	tag++;
	return (void *)(tag + 1) <= end && is_for_host(tag->type, tag + 1, end);
}

static __always_inline enum decision decide(void *data, void *end)
{
	struct ethhdr *eth = data;
	__u64 mac;

	if ((void *)(eth + 1) > end)
		return TO_SOCKET;

	switch (eth->h_proto) {
	case bpf_htons(ETH_P_8021Q):
	case bpf_htons(ETH_P_8021AD):
		return gateway && !is_tagged_for_host(eth + 1, end) ? TRANSIT_VLAN : VLAN;
	case bpf_htons(ETH_P_MPLS_UC):
	case bpf_htons(ETH_P_MPLS_MC):
		return gateway ? TRANSIT_ETHER_TYPE : ETHER_TYPE;
	case bpf_htons(ETH_P_IP):
	case bpf_htons(ETH_P_IPV6):
		break;
	default:
		return ETHER_TYPE;
	}

	mac = *(__u32 *)&eth->h_dest[0] | (__u64) * (__u16 *)&eth->h_dest[4] << 32;
	if (mac != port_mac)
		return gateway && !is_for_host(eth->h_proto, eth + 1, end) ? TRANSIT_OTHER_MAC : OTHER_MAC;

	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return decide_ipv4(eth + 1, end);
	return decide_ipv6(eth + 1, end);
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	enum decision d = decide((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	int action = XDP_PASS;
	__u64 *n;

	if (d == TO_SOCKET) {
		action = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
		if (action != XDP_REDIRECT)
			d = NO_SOCKET;
	} else if (d < VLAN) {
		action = XDP_DROP;
	}
	n = bpf_map_lookup_elem(&frames, &d);
	if (n)
		++*n;
	return action;
}

// No helper that is called here asks for the GPL.
char _license[] SEC("license") = "Apache-2.0";
