//go:build ignore

// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// XDP program of a port. It passes host traffic to Linux and redirects every other frame to the
// AF_XDP socket of its receive queue.
//
// Host traffic, in the order of the tests:
//
//   - frames with VLAN tags that are not of a VLAN in the map, and frames that are neither IPv4 nor
//     IPv6 (ARP, LLDP, ...)
//   - frames to other MAC addresses than those of the port or VLAN, including broadcast and multicast
//   - IPv4 with options
//   - packets to multicast groups, and to 255.255.255.255
//   - IPv6 from or to link-local addresses
//   - packets to an address in local4 or local6: the host's own addresses and the directed
//     broadcasts of its subnets, which the control plane adds; on a gateway except ESP, plain or
//     in UDP, and its fragments
//   - packets from such an address, which Linux drops unless configured otherwise
//   - neighbor discovery (RFC 4861 4, ICMPv6 types 133 to 137)
//
// On an IPsec gateway, Linux gets only packets addressed to this host, to a multicast group or to a
// link-local address. Linux could forward others past the policies, so they are dropped: packets
// with IPv4 options, from a link-local or own address, neighbor discovery, frames to another MAC
// address, and packets behind a tag of an unknown VLAN. Up to two tags are parsed; frames with more tags
// and MPLS are dropped. Frames with neither IPv4 nor IPv6 (ARP, LLDP, LACP, ...) go to Linux, tagged or
// not.
//
// The frames of a VLAN in the map are treated as untagged ones are, and keep their tags. So are, on ports
// that have had VLANs, frames with VID 0 that are not a VLAN's: such a tag only has a priority.
//
// Frames that are too short for their headers, or whose IP version contradicts the EtherType, are
// redirected: the engine drops them and counts the reason. A redirect never falls back to Linux,
// which could forward the frame past the policies: a queue without a socket drops.
//
// There are two programs. steer runs on any port. Tags that the NIC or a veth peer stripped before XDP are
// invisible to it ("ethtool -K IFACE rxvlan off", for veth "txvlan off" at the peer, keeps them in the
// frame). steer_stripped reads such a tag from the metadata of the driver, and adds it to the frame before the
// tests. A frame that goes to Linux is as the driver left it. A stripped tag with VID 0 on a port that has had
// no VLANs is ignored: it only has a priority.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/types.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Decision per frame, and index of its counter. Go's type is generated from it.
enum decision {
	TO_SOCKET,
	NO_SOCKET, // dropped: the queue has no socket
	// Dropped on a gateway: Linux could forward the packet past the policies.
	TRANSIT_VLAN,
	TRANSIT_ETHER_TYPE,
	TRANSIT_OTHER_MAC,
	TRANSIT_IPV4_OPTIONS,
	TRANSIT_LINK_LOCAL,
	TRANSIT_OWN_SOURCE,
	TRANSIT_NEIGHBOR_DISCOVERY,
	// Passed to Linux.
	VLAN, // tagged, and not of a VLAN in the map
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

// Addresses of this host. The programs of all ports share both maps.
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
} decisions SEC(".maps");

// The port's MAC address, first byte lowest. The initial value matches no frame, so Linux gets all
// of them until user space sets it.
volatile __u64 port_mac = ~0ULL;

// Number of the port.
volatile __u32 port_number = 0;

// Nonzero if workers remove tags: the port has had a VLAN in the map.
volatile __u32 has_vlans = 0;

// Tag of a VLAN on a port: a physical port, or that of the outer VLAN.
struct vlan_key {
	__u16 parent; // port number
	__u16 tag;    // VID, and bit 12 if the EtherType is that of 802.1ad
};

struct vlan {
	__u64 mac; // as port_mac
	__u32 port;
	__u32 unused;
};

// VLANs that are ports. The programs of all ports share the map.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct vlan_key);
	__type(value, struct vlan);
} vlans SEC(".maps");

// Further MAC addresses of ports: a port number in the upper 16 bits, an address as port_mac in the lower.
// The programs of all ports share the map.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u8);
} macs SEC(".maps");

// Nonzero on an IPsec gateway: ESP to this host is redirected, and Linux gets no packet that it
// could forward.
volatile __u32 gateway = 0;

#define PORT_NATT 4500 // IKE, and ESP in UDP, which begins with a nonzero SPI (RFC 3948)

// Reports whether the header at l4 of a first or only fragment starts ESP. NAT keepalives are not
// ESP.
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

// Reassembly key of a datagram (RFC 791 3.2, RFC 8200 4.5). IPv4 addresses are in the first words.
struct datagram {
	__be32 src[4], dst[4], id;
};

// Datagrams to this host whose first fragment was ESP in UDP, and its arrival in nanoseconds. The
// programs of all ports share the map. Later fragments that overtake the first one go to Linux, and
// the datagram is lost.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct datagram);
	__type(value, __u64);
} in_udp SEC(".maps");

#define REASSEMBLY_NS 2000000000ULL // reassembly timeout of a worker

// Reports whether a fragment belongs to ESP. Only the first one has the UDP ports.
static __always_inline int is_esp_fragment(struct datagram *d, __u8 protocol, int later, void *l4, void *end)
{
	__u64 now = bpf_ktime_get_ns(), *since;

	if (protocol != IPPROTO_UDP)
		return protocol == IPPROTO_ESP;
	if (later) {
		since = bpf_map_lookup_elem(&in_udp, d);
		return since && now - *since < REASSEMBLY_NS;
	}
	if (is_esp(protocol, l4, end))
		return !bpf_map_update_elem(&in_udp, d, &now, BPF_ANY);
	bpf_map_delete_elem(&in_udp, d);
	return 0;
}

// Report whether a packet to this host is ESP that the gateway decrypts.
static __always_inline int is_esp_ipv4(struct iphdr *ip, void *end)
{
	struct datagram d = { { ip->saddr }, { ip->daddr }, ip->id };

	if (!gateway)
		return 0;
	if (!(ip->frag_off & bpf_htons(0x3fff)))
		return is_esp(ip->protocol, ip + 1, end);
	return is_esp_fragment(&d, ip->protocol, ip->frag_off & bpf_htons(0x1fff), ip + 1, end);
}

static __always_inline int is_esp_ipv6(struct ipv6hdr *ip, void *end)
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

// Bloom filter with one hash: a bit per 16-bit fold of an address in local4 or local6. It spares
// most packets the map lookup.
volatile __u64 local_folds[1 << 10];

static __always_inline int maybe_local(__u32 address)
{
	__u16 fold = address ^ address >> 16;

	return local_folds[fold >> 6] >> (fold & 63) & 1;
}

static __always_inline int is_local4(__be32 address)
{
	return maybe_local(address) && bpf_map_lookup_elem(&local4, &address);
}

static __always_inline int is_group4(__be32 address)
{
	return (address & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000);
}

// Reports whether an IPv4 packet is for this host or a multicast group, so that Linux does not
// forward it. False for a truncated header.
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
		return is_esp_ipv4(ip, end) ? TO_SOCKET : LOCAL;
	if (is_local4(ip->saddr))
		return gateway ? TRANSIT_OWN_SOURCE : OWN_SOURCE;
	return TO_SOCKET;
}

static __always_inline int is_link_local(const struct in6_addr *a)
{
	return (a->s6_addr16[0] & bpf_htons(0xffc0)) == bpf_htons(0xfe80);
}

static __always_inline __u32 xor_words(const struct in6_addr *a)
{
	return a->s6_addr32[0] ^ a->s6_addr32[1] ^ a->s6_addr32[2] ^ a->s6_addr32[3];
}

static __always_inline int is_local6(struct in6_addr *a)
{
	return maybe_local(xor_words(a)) && bpf_map_lookup_elem(&local6, a);
}

// Reports the same for an IPv6 packet. Link-local addresses are not routed (RFC 4291 2.5.6).
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
		return is_esp_ipv6(ip, end) ? TO_SOCKET : LOCAL;
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

// Reports whether Linux cannot forward the payload of an EtherType.
static __always_inline int is_for_host(__be16 type, void *data, void *end)
{
	if (type == bpf_htons(ETH_P_IP))
		return is_for_host4(data, end);
	if (type == bpf_htons(ETH_P_IPV6))
		return is_for_host6(data, end);
	return !is_tag(type) && !is_mpls(type);
}

// Reports the same for a frame with one VLAN tag, or two (802.1ad).
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

// Port of a frame with its MAC address, 0 for none, and what follows the frame's tags.
struct untagged {
	__u64 mac;
	__u64 port;
	void *packet;
	__be16 type;
};

// Finds the VLAN of a frame whose first tag is at data, with an EtherType before it. Linux handles the
// tags in the same order.
static __always_inline void find_vlan(struct untagged *u, __be16 type, void *data, void *end)
{
	struct {
		__be16 tci, type;
	} *tag = data;
	struct vlan_key key = { port_number };
	struct vlan *v;
	__u64 mac = port_mac;

#pragma unroll
	for (int i = 0; i < 2; i++) {
		if ((void *)(tag + 1) > end)
			return;
		key.tag = bpf_ntohs(tag->tci) & 0xfff;
		if (type == bpf_htons(ETH_P_8021AD))
			key.tag |= 1 << 12;
		v = bpf_map_lookup_elem(&vlans, &key);
		if (v) {
			key.parent = v->port;
			mac = v->mac;
		} else if (key.tag & 0xfff) {
			return;
		}
		type = tag->type;
		tag++;
		if (!is_tag(type)) {
			u->mac = mac;
			u->port = key.parent;
			u->packet = tag;
			u->type = type;
			return;
		}
	}
}

static __always_inline enum decision decide(void *data, void *end)
{
	struct ethhdr *eth = data;
	struct untagged u = { port_mac, port_number };
	__u64 mac, key;

	if ((void *)(eth + 1) > end)
		return TO_SOCKET;
	u.packet = eth + 1;
	u.type = eth->h_proto;
	if (is_tag(eth->h_proto)) {
		u.mac = 0;
		if (has_vlans && port_mac != ~0ULL) // ~0: Linux gets every frame
			find_vlan(&u, eth->h_proto, eth + 1, end);
		if (!u.mac)
			return gateway && !is_tagged_for_host(eth + 1, end) ? TRANSIT_VLAN : VLAN;
	}

	switch (u.type) {
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
	key = mac | u.port << 48;
	if (mac != u.mac && (port_mac == ~0ULL || !bpf_map_lookup_elem(&macs, &key)))
		return gateway && !is_for_host(u.type, u.packet, end) ? TRANSIT_OTHER_MAC : OTHER_MAC;

	if (u.type == bpf_htons(ETH_P_IP))
		return decide_ipv4(u.packet, end);
	return decide_ipv6(u.packet, end);
}

// Redirects a frame to the socket of its queue, passes it to Linux or drops it, and counts the decision.
static __always_inline int execute(struct xdp_md *ctx, enum decision d)
{
	int action = XDP_PASS;
	__u64 *n;

	if (d == TO_SOCKET) {
		action = bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_DROP);
		if (action != XDP_REDIRECT)
			d = NO_SOCKET;
	} else if (d < VLAN) {
		action = XDP_DROP;
	}
	n = bpf_map_lookup_elem(&decisions, &d);
	if (n)
		++*n;
	return action;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	return execute(ctx, decide((void *)(long)ctx->data, (void *)(long)ctx->data_end));
}

// Linux has it since 6.8. It returns 0 if the driver has stripped a tag of the frame. The TCI is in host order.
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, __be16 *type, __u16 *tci) __ksym;

#define TAG_LEN 4

// Both MAC addresses and a tag, in words.
#define MACS_WORDS 3
#define HEAD_WORDS (MACS_WORDS + 1)

// Adds a tag to a frame. It returns 0, or nonzero if the driver left no room.
static __always_inline int add_tag(struct xdp_md *ctx, __be16 type, __u16 tci)
{
	__u32 *head;

	if (bpf_xdp_adjust_head(ctx, -TAG_LEN))
		return -1;
	head = (void *)(long)ctx->data;
	if ((void *)(head + HEAD_WORDS) > (void *)(long)ctx->data_end)
		return -1; // never: an Ethernet header is longer
#pragma unroll
	for (int i = 0; i < MACS_WORDS; i++)
		head[i] = head[i + 1];
	head[MACS_WORDS] = type | (__u32)bpf_htons(tci) << 16;
	return 0;
}

// Undoes add_tag. It returns 0, or nonzero on an error, which never occurs.
static __always_inline int remove_tag(struct xdp_md *ctx)
{
	__u32 *head = (void *)(long)ctx->data;

	if ((void *)(head + HEAD_WORDS) > (void *)(long)ctx->data_end)
		return -1;
#pragma unroll
	for (int i = MACS_WORDS; i > 0; i--)
		head[i] = head[i - 1];
	return bpf_xdp_adjust_head(ctx, TAG_LEN);
}

// Kernels load it for one device only (BPF_F_XDP_DEV_BOUND_ONLY), and only with a license that is compatible
// with the GPL.
SEC("xdp")
int steer_stripped(struct xdp_md *ctx)
{
	enum decision d;
	__be16 type = 0;
	__u16 tci = 0;
	int stripped, action;

	stripped = !bpf_xdp_metadata_rx_vlan_tag(ctx, &type, &tci) && (has_vlans || tci & 0xfff);
	if (stripped && add_tag(ctx, type, tci)) // without its tag, the frame must not be routed
		return execute(ctx, gateway ? TRANSIT_VLAN : VLAN);
	d = decide((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	action = execute(ctx, d);
	if (stripped && action == XDP_PASS && remove_tag(ctx))
		action = XDP_ABORTED; // a tracepoint reports it
	return action;
}

char _license[] SEC("license") = "GPL v2";
