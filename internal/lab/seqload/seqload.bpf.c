//go:build ignore

// SPDX-License-Identifier: Apache-2.0
//
// emit sends packets with sequence numbers, of several flows, at a rate. record receives them.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FLOWS 16    // limit
#define FRAME 82    // bytes of every frame: Ethernet, IPv6 and UDP header, 20 of payload
#define ROOM 88     // bytes for a frame, with two in front that align its headers
#define BURST 128   // packets sent at once: half of the queue of a veth
#define RUNS 8192   // recorded per flow
#define PORT 7777   // UDP destination of all packets
#define TICK 0x88b5 // EtherType of ticks, for experiments
#define IPV4 0x0800
#define IPV6 0x86dd
#define UDP4 34 // offsets of the UDP header
#define UDP6 54
#define SECOND 1000000000ull
#define STALL 300000 // ns without a tick that count as a stall
#define STALLS 4096  // recorded

// The core on which a program ran last.
__u32 core = ~0u;

// Payloads begin with flow and number, in network byte order. A template is packet 0.
volatile const __u8 templates[FLOWS][ROOM];
volatile const __u32 flows;
volatile const __u32 out;  // egress interface of packets
volatile const __u32 back; // egress interface of ticks

__u64 rate;    // packets per second, of all flows
__u64 last;    // time of the last tick
__u64 credit;  // fraction of a packet, in packets / SECOND
__u32 turn;    // next flow
__u32 sent[FLOWS];

// set_number turns packet 0 into another, from its UDP header on.
static __always_inline void set_number(__u8 *udp, __u32 number)
{
	__u32 sum = (__u16)~*(__u16 *)(udp + 6) + bpf_htons(number >> 16) + bpf_htons(number); // RFC 1624, eqn. 3

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*(__u16 *)(udp + 6) = sum == 0xffff ? 0xffff : ~sum; // 0 would mean no checksum
	*(__u32 *)(udp + 12) = bpf_htonl(number);
}

static __always_inline long emit_next(struct __sk_buff *skb)
{
	__u8 words[ROOM] __attribute__((aligned(8))), *frame = words + 2;
	__u32 flow = turn;

	if (flow >= FLOWS || flow >= flows)
		flow = 0;
	for (int i = 0; i < ROOM; i += 8)
		*(__u64 *)(words + i) = *(const volatile __u64 *)(templates[flow] + i);
	set_number(frame + (*(__u16 *)(frame + 12) == bpf_htons(IPV4) ? UDP4 : UDP6), sent[flow]);
	if (bpf_skb_store_bytes(skb, 0, frame, FRAME, 0))
		return -1;
	sent[flow]++;
	turn = flow + 1;
	bpf_clone_redirect(skb, out, 0); // the link counts packets that it refuses
	return 0;
}

// stall is a time without softirqs on a core, in ns of the monotonic clock.
struct stall {
	__u64 from, to;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STALLS);
	__type(key, __u32);
	__type(value, struct stall);
} stalls SEC(".maps");
__u32 stalled;

// emit sends the packets due since the last tick, and redirects the tick.
SEC("tc")
int emit(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), due;
	__u16 type = bpf_htons(TICK);

	if (skb->protocol != type || skb->len < FRAME)
		return TC_ACT_OK;
	core = bpf_get_smp_processor_id();
	if (last && now - last > STALL) {
		struct stall *stall = bpf_map_lookup_elem(&stalls, &stalled);

		if (stall)
			*stall = (struct stall){last, now};
		stalled++;
	}
	credit += (now - last) * rate;
	last = now;
	due = credit / SECOND;
	credit %= SECOND;
	for (int i = 0; i < BURST && i < due; i++) // the rest is never sent
		if (emit_next(skb))
			break;
	bpf_skb_store_bytes(skb, 12, &type, sizeof(type), 0);
	return bpf_redirect(back, 0);
}

// run is consecutive packets of a flow, and the arrival times of the first and the last.
struct run {
	__u32 first, next;
	__u64 began, ended;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOWS * RUNS);
	__type(key, __u32);
	__type(value, struct run);
} runs SEC(".maps");

struct counts {
	__u32 packets, runs, next;
};

volatile const __u8 station[6]; // MAC address of the link
struct counts counts[FLOWS];
__u32 misrouted; // packets for another MAC address

// record counts packets of the load. Packets of one queue arrive one after the other.
SEC("xdp")
int record(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *udp = data;
	__u32 flow, number, key, begins;
	struct counts *t;
	struct run *r;

	if (data + FRAME > end)
		return XDP_PASS;
	switch (bpf_ntohs(*(__u16 *)(data + 12))) {
	case TICK:
		core = bpf_get_smp_processor_id();
		return XDP_DROP;
	case IPV4:
		udp += UDP4;
		break;
	case IPV6:
		udp += UDP6;
		break;
	default:
		return XDP_PASS;
	}
	if (udp + 16 > end || *(__u16 *)(udp + 2) != bpf_htons(PORT))
		return XDP_PASS;
	flow = bpf_ntohl(*(__u32 *)(udp + 8));
	number = bpf_ntohl(*(__u32 *)(udp + 12));
	if (flow >= FLOWS)
		return XDP_PASS;
	for (int i = 0; i < 6; i++)
		if (data[i] != station[i]) {
			misrouted++;
			return XDP_DROP;
		}
	t = &counts[flow];
	begins = !t->packets++ || number != t->next;
	t->runs += begins;
	t->next = number + 1;
	key = flow * RUNS + t->runs - 1;
	if (t->runs > RUNS)
		return XDP_DROP;
	r = bpf_map_lookup_elem(&runs, &key);
	if (r) {
		r->ended = bpf_ktime_get_ns();
		r->next = number + 1;
		if (begins) {
			r->first = number;
			r->began = r->ended;
		}
	}
	return XDP_DROP;
}

char _license[] SEC("license") = "Apache-2.0";
