//go:build ignore

// SPDX-License-Identifier: Apache-2.0
//
// Both ends of a load, in the kernel: emit sends numbered packets of several flows
// at a rate, note takes them where they arrive.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FLOWS 16    // at most
#define FRAME 82    // bytes of every frame: Ethernet, IPv6 and UDP header, 20 of payload
#define ROOM 88     // for one, behind two bytes that align its headers
#define BURST 128   // packets that are sent at once at most: half of what waits at a veth
#define RUNS 8192   // of a flow, that are noted
#define PORT 7777   // UDP destination of all packets
#define BALL 0x88b5 // an EtherType for experiments
#define IPV4 0x0800
#define IPV6 0x86dd
#define UDP4 34 // where the UDP header is
#define UDP6 54
#define SECOND 1000000000ull
#define STALL 300000 // ns without a turn that are noted
#define STALLS 4096  // that are noted

// Where a program ran last.
__u32 core = ~0u;

// Payloads begin with flow and number, in network byte order. A template is packet 0.
volatile const __u8 templates[FLOWS][ROOM];
volatile const __u32 flows;
volatile const __u32 out;  // the interface that packets leave by
volatile const __u32 back; // where the ball is thrown back

__u64 rate;    // packets a second, of all flows
__u64 last;    // when the ball was here
__u64 credit;  // what was not yet a whole packet then, in packets / SECOND
__u32 turn;    // the flow that is next
__u32 sent[FLOWS];

// enumerate makes packet 0 another, from its UDP header on.
static __always_inline void enumerate(__u8 *udp, __u32 number)
{
	__u32 sum = (__u16)~*(__u16 *)(udp + 6) + bpf_htons(number >> 16) + bpf_htons(number); // RFC 1624, eqn. 3

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	*(__u16 *)(udp + 6) = sum == 0xffff ? 0xffff : ~sum; // 0 would mean: none
	*(__u32 *)(udp + 12) = bpf_htonl(number);
}

static __always_inline long emit_next(struct __sk_buff *ball)
{
	__u8 words[ROOM] __attribute__((aligned(8))), *frame = words + 2;
	__u32 flow = turn;

	if (flow >= FLOWS || flow >= flows)
		flow = 0;
	for (int i = 0; i < ROOM; i += 8)
		*(__u64 *)(words + i) = *(const volatile __u64 *)(templates[flow] + i);
	enumerate(frame + (*(__u16 *)(frame + 12) == bpf_htons(IPV4) ? UDP4 : UDP6), sent[flow]);
	if (bpf_skb_store_bytes(ball, 0, frame, FRAME, 0))
		return -1;
	sent[flow]++;
	turn = flow + 1;
	bpf_clone_redirect(ball, out, 0); // the link counts what it does not take
	return 0;
}

// A stall is a time without interrupts on a core, in ns of the monotonic clock.
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

// emit sends what has become due since the ball was here, and throws it back.
SEC("tc")
int emit(struct __sk_buff *ball)
{
	__u64 now = bpf_ktime_get_ns(), due;
	__u16 type = bpf_htons(BALL);

	if (ball->protocol != type || ball->len < FRAME)
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
	for (int i = 0; i < BURST && i < due; i++) // what is due beyond that is never sent
		if (emit_next(ball))
			break;
	bpf_skb_store_bytes(ball, 12, &type, sizeof(type), 0);
	return bpf_redirect(back, 0);
}

// A run is consecutive packets of a flow, and when the first and the last one came.
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

struct tally {
	__u32 packets, runs, next;
};

volatile const __u8 station[6]; // the link's address
struct tally tallies[FLOWS];
__u32 strays; // packets to another station

// note takes the load's packets. One queue's packets come one after the other.
SEC("xdp")
int note(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *udp = data;
	__u32 flow, number, key, begins;
	struct tally *t;
	struct run *r;

	if (data + FRAME > end)
		return XDP_PASS;
	switch (bpf_ntohs(*(__u16 *)(data + 12))) {
	case BALL:
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
			strays++;
			return XDP_DROP;
		}
	t = &tallies[flow];
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
