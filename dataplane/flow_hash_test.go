package dataplane

import (
	"fmt"
	"testing"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// Flows that differ in one field only, by consecutive values, are divided evenly among members, with any seed.
func TestFlowHashSpreads(t *testing.T) {
	for name, flow := range similarFlows() {
		const flows, members = 4096, 8
		for seed := range uint32(20) {
			w := &worker{fib: &fib.FIB{Seed: seed}}
			var share [members]int
			for i := range flows {
				share[int(flowHash(flow(i), w.memberSeed())>>24)*members/256]++
			}
			for m, n := range share {
				if n < flows/members*8/10 || n > flows/members*12/10 {
					t.Errorf("%s, seed %d: member %d has %d of %d flows", name, seed, m, n, flows)
				}
			}
		}
	}
}

// Eight similar flows use one of two members as seldom as random hashes would: with one of 128 seeds.
func TestFewFlowsUseBothMembers(t *testing.T) {
	const seeds, flows = 1024, 8
	for name, flow := range similarFlows() {
		alone := 0
		for seed := range uint32(seeds) {
			w := &worker{fib: &fib.FIB{Seed: seed * 0x9e3779b1}}
			ones := 0
			for i := range flows {
				ones += int(flowHash(flow(i), w.memberSeed()) >> 31)
			}
			if ones == 0 || ones == flows {
				alone++
			}
		}
		if alone > 2*seeds/128 {
			t.Errorf("%s: all %d flows use one of two members with %d of %d seeds", name, flows, alone, seeds)
		}
	}
}

// similarFlows are kinds of flows that differ in one field.
func similarFlows() map[string]func(i int) []byte {
	udp4 := func(src, dst string, sport, dport int) []byte {
		return testutil.UDP4(src, dst, uint16(sport), uint16(dport))[packet.EthernetLen:]
	}
	udp6 := func(src, dst string, sport, dport int) []byte {
		return testutil.UDP6(src, dst, uint16(sport), uint16(dport))[packet.EthernetLen:]
	}
	esp := func(p []byte, at int) []byte { // the SPI is where the ports were
		p[at] = 50
		return p
	}
	return map[string]func(i int) []byte{
		"IPv4 source":           func(i int) []byte { return udp4(fmt.Sprintf("10.0.%d.%d", i/256, i%256), "192.0.2.1", 1, 2) },
		"IPv4 destination":      func(i int) []byte { return udp4("192.0.2.1", fmt.Sprintf("10.0.%d.%d", i/256, i%256), 1, 2) },
		"IPv4 source port":      func(i int) []byte { return udp4("192.0.2.1", "198.51.100.1", i, 443) },
		"IPv4 destination port": func(i int) []byte { return udp4("192.0.2.1", "198.51.100.1", 443, i) },
		"IPv4 SPI":              func(i int) []byte { return esp(udp4("192.0.2.1", "198.51.100.1", 0xc000, i), 9) },
		"IPv6 source":           func(i int) []byte { return udp6(fmt.Sprintf("2001:db8::%x", i), "2001:db8:1::1", 1, 2) },
		"IPv6 network":          func(i int) []byte { return udp6("2001:db8::1", fmt.Sprintf("2001:db8:%x::1", i), 1, 2) },
		"IPv6 source port":      func(i int) []byte { return udp6("2001:db8::1", "2001:db8:1::1", i, 443) },
		"IPv6 SPI":              func(i int) []byte { return esp(udp6("2001:db8::1", "2001:db8:1::1", 0xc000, i), 6) },
	}
}

// Packets of one flow have one hash, whatever they carry. Fragments have that of their addresses, and packets of
// protocols without ports do not depend on their payload.
func TestFlowHashIsThatOfTheFlow(t *testing.T) {
	const seed = 12345
	for name, build := range map[string]func(sport uint16, payload ...byte) []byte{
		"IPv4": func(sport uint16, payload ...byte) []byte {
			return testutil.UDP4("192.0.2.1", "198.51.100.1", sport, 2, payload...)[packet.EthernetLen:]
		},
		"IPv6": func(sport uint16, payload ...byte) []byte {
			return testutil.UDP6("2001:db8::1", "2001:db8::2", sport, 2, payload...)[packet.EthernetLen:]
		},
	} {
		one, same, other := build(1, 1, 2, 3), build(1, 9, 9, 9, 9, 9, 9, 9), build(3, 1, 2, 3)
		if flowHash(one, seed) != flowHash(same, seed) {
			t.Errorf("%s: the hash depends on the payload", name)
		}
		if flowHash(one, seed) == flowHash(other, seed) || flowHash(one, seed) == flowHash(one, seed+2) {
			t.Errorf("%s: the hash does not depend on the port and the seed", name)
		}
		at, ttl := 9, 8
		if name == "IPv6" {
			at, ttl = 6, 7
		}
		same[ttl]--
		if flowHash(one, seed) != flowHash(same, seed) {
			t.Errorf("%s: the hash depends on the TTL", name)
		}
		one[at], other[at] = 1, 1 // ICMP
		if flowHash(one, seed) != flowHash(other, seed) {
			t.Errorf("%s: the hash of a protocol without ports depends on its first bytes", name)
		}
	}
	first, later := testutil.UDP4("192.0.2.1", "198.51.100.1", 1, 2)[packet.EthernetLen:], testutil.UDP4("192.0.2.1", "198.51.100.1", 3, 4)[packet.EthernetLen:]
	first[6], later[7] = 0x20, 8 // more fragments; an offset
	if flowHash(first, seed) != flowHash(later, seed) {
		t.Error("fragments of one datagram have different hashes")
	}
	first[6] = 0
	for n := packet.IPv4Len; n < packet.IPv4Len+4; n++ { // no bytes behind the packet are read
		flowHash(first[:n:n], seed)
	}
}
