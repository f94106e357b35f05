/* reuse: decides on one packet again and again, with and without hot entries, a reverse-path filter and a VRF. Each time it changes the tables before another load, in every way the
 * router may change unused entries. The packet must take the old or the new path, never a reused
 * entry of the old one. Prints the number of loads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernel/device.h"

static void before_load(void);

static uint32_t watched32(const uint32_t *p)
{
	before_load();
	return load32(p);
}

static uint64_t watched64(const uint64_t *p)
{
	before_load();
	return load64(p);
}

#define load32 watched32
#define load64 watched64
#include "../kernel/decide.h"

enum { OLD = 1, NEW, WRONG }; /* next hops, adjacencies, and last bytes of MACs */

static uint32_t *images[2], groups[ECMP_BUCKETS], ingress[MAX_PORTS], partial_checksums[MAX_PORTS / 32], generation;
static uint64_t ipv4, hops[4], adjacencies[4], ports[MAX_PORTS];
static const struct tables tables = {
	.ipv4 = &ipv4, .ipv6 = &ipv4, .next_hops = hops, .groups = groups, .adjacencies = adjacencies, .ports = ports,
	.ingress = ingress, .generation = &generation, .partial_checksums = partial_checksums,
};

static uint64_t forward_to(uint32_t adjacency) { return (uint64_t)KIND_FORWARD << 56 | adjacency; }

/* WRONG leaves by another port than the packet's. */
static uint64_t adjacency_of(uint32_t mac) { return (uint64_t)mac << 16 | (mac == WRONG ? 2 : 1); }

static void lead_to(uint32_t *image, uint32_t hop)
{
	image[10 << 16] = 24 << TRIE_NEXT_HOP_BITS | hop; /* 10.0.0.0/24 */
	image[192 << 16 | 2] = 24 << TRIE_NEXT_HOP_BITS | hop; /* 192.0.2.0/24 */
	image[TRIE_DEFAULT] = hop;
}

/* A VRF's word refers to a node for 10.0.0.0/8 and 192.0.0.0/8. */
static void vrf_leads_to(uint32_t *image, uint32_t vrf, uint32_t hop)
{
	uint32_t node = TRIE_NODES + vrf * TRIE_NODE;

	image[TRIE_VRFS + vrf] = TRIE_REFERENCE | node;
	image[node + 10] = image[node + 192] = 8 << TRIE_NEXT_HOP_BITS | hop;
}

static uint32_t mode, in_vrf;

/* The word of the packet's port, in a VRF if it is in one. */
static uint32_t ingress_word(uint32_t vrf) { return mode | (in_vrf ? vrf << PORT_VRF_SHIFT : 0); }

/* The old path leads through an ECMP group. */
static void before_change(void)
{
	ipv4 = (uintptr_t)images[0];
	lead_to(images[0], OLD);
	lead_to(images[1], NEW);
	vrf_leads_to(images[0], OLD, OLD);
	vrf_leads_to(images[1], OLD, NEW);
	vrf_leads_to(images[0], NEW, NEW);
	vrf_leads_to(images[1], NEW, NEW);
	ingress[1] = ingress_word(OLD);
	hops[OLD] = forward_to(0) | (uint64_t)1 << 32;
	for (uint32_t i = 0; i < ECMP_BUCKETS; i++)
		groups[i] = OLD;
	adjacencies[OLD] = adjacency_of(OLD);
	hops[NEW] = forward_to(NEW);
	adjacencies[NEW] = adjacency_of(NEW);
	hops[WRONG] = forward_to(WRONG);
	adjacencies[WRONG] = adjacency_of(WRONG);
	ports[1] = ports[2] = 1500;
}

/* Replaces the image and moves the port to the other VRF, then reuses all entries of the old path. */
static void change(void)
{
	ipv4 = (uintptr_t)images[1];
	ingress[1] = ingress_word(NEW);
	generation++;
	lead_to(images[0], WRONG);
	vrf_leads_to(images[0], OLD, WRONG);
	vrf_leads_to(images[1], OLD, WRONG);
	vrf_leads_to(images[0], NEW, WRONG);
	hops[OLD] = forward_to(WRONG);
	for (uint32_t i = 0; i < ECMP_BUCKETS; i++)
		groups[i] = WRONG;
	adjacencies[OLD] = adjacency_of(WRONG);
}

static int loads, change_at;

static void before_load(void)
{
	if (++loads == change_at)
		change();
}

static const uint8_t packet[2 + ETHERNET_LEN + IPV4_LEN + 28] = {
	[14] = 8, 0, 0x45, 0, 0, IPV4_LEN, 0, 0, 0, 0, 64, 59, 0xae, 0xad, 192, 0, 2, 1, 10, 0, 0, 1,
};

/* Decides on the packet. Returns whether it took the old or the new path. */
static int decide_once(int with_copy)
{
	_Alignas(16) uint8_t frame[64];
	uint32_t header[16], to[REWRITTEN_WORDS];
	struct hot_entries hot;
	struct tables t = tables;
	struct frame f = {2, ETHERNET_LEN + IPV4_LEN, 1};

	memcpy(frame, packet, sizeof frame);
	memcpy(header, packet, sizeof header);
	struct snapshot s = take_snapshot(&t);
	if (with_copy) {
		for (int i = 0; i < 4; i++) {
			hot.next_hops[i] = watched64(&hops[i]);
			hot.adjacencies[i] = watched64(&adjacencies[i]);
			hot.ports[i] = watched64(&ports[i]);
			hot.ingress[i] = watched32(&ingress[i]);
		}
		t.hot = &hot;
	}
	struct decision d = decide(&t, s, f, frame + 2, header, to);
	while (d.generation != s.generation) {
		t.hot = NULL;
		s = take_snapshot(&t);
		d = decide(&t, s, f, frame + 2, header, to);
	}
	struct result r = d.result;
	uint8_t mac = ((uint8_t *)to)[7];
	if (r.verdict == verdict(ACTION_FORWARD, 1) && (mac == OLD || mac == NEW))
		return 1;
	printf("the tables changed before load %d: verdict %#x, address %d\n", change_at, r.verdict, mac);
	return 0;
}

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 2; i++)
		if (!(images[i] = calloc(TRIE_NODES + 3 * TRIE_NODE, sizeof *images[i])))
			return 1;
	for (int way = 0; way < 8; way++) {
		int with_copy = way % 2;
		mode = way / 2 % 2 ? RPF_STRICT : RPF_OFF;
		in_vrf = way / 4;
		for (loads = 0, change_at = 1; loads >= change_at - 1; change_at++) {
			before_change();
			loads = 0;
			if (!decide_once(with_copy))
				return 1;
		}
		sum += loads;
	}
	printf("%d\n", sum);
	return 0;
}
