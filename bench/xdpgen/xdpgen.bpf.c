//go:build ignore

// SPDX-License-Identifier: Apache-2.0
//
// The ends of a benchmark inside the kernel, where a socket would be the
// bottleneck: send makes frames, count takes them.

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Ethernet, IPv4 and UDP header of every frame. Destination and source port are
// written over, so the UDP checksum is zero: none.
#define HEADER 42
#define CHECKSUM 24
#define DST 32 // the lower half of the destination
#define SPORT 34

volatile const __u8 header[HEADER];
volatile const __u32 ifindex; // of the link that frames are sent on
volatile const __u32 flows;   // each with a destination and a source port of its own
__u32 next;

// send turns the frame that it is run with into the next one of the load, whoever
// had the page before, and sends it. It is run by BPF_PROG_TEST_RUN with live frames.
SEC("xdp")
int send(struct xdp_md *ctx)
{
	__u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 sum;

	if (data + HEADER > end)
		return XDP_ABORTED;
#pragma unroll
	for (int i = 0; i + 8 <= HEADER; i += 8)
		*(__u64 *)(data + i) = *(const volatile __u64 *)(header + i);
	*(__u16 *)(data + 40) = *(const volatile __u16 *)(header + 40);
	*(__u16 *)(data + SPORT) = bpf_htons(1024 + next);
	*(__u16 *)(data + DST) = bpf_htons(bpf_ntohs(*(__u16 *)(data + DST)) + next);
	sum = (__u16)~*(__u16 *)(data + CHECKSUM) + bpf_htons(next); // RFC 1624, eqn. 3
	*(__u16 *)(data + CHECKSUM) = ~(sum + (sum >> 16));
	if (++next >= flows)
		next = 0;
	return bpf_redirect(ifindex, 0);
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} frames SEC(".maps");

static __always_inline void add(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&frames, &zero);

	if (n)
		++*n;
}

// count drops every frame and counts it.
SEC("xdp")
int count(struct xdp_md *ctx)
{
	add();
	return XDP_DROP;
}

// pass leaves every frame to Linux: a program for its side effect, that a veth
// receives by NAPI.
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Apache-2.0";
