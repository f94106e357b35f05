package conformance

import (
	"bytes"
	"encoding/binary"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
)

func ipv4Rules() []Rule {
	v4 := to4("10.1.0.9")
	return []Rule{
		{
			Key: "ipv4/version", Source: "RFC 1812 5.2.2 (3)", Status: Kept,
			Says: "The version is 4",
			Does: "Dropped silently.",
			Cases: all(drop(batch.IPVersion), nil,
				Case{Name: "IPv6 under IPv4's type", Frame: etherType(to6("fd01::9"), 0x0800)},
				Case{Name: "version 0", Frame: edit(v4, 0, 0x05)},
				Case{Name: "version 15", Frame: edit(v4, 0, 0xf5)},
			),
		},
		{
			Key: "ipv4/header-length", Source: "RFC 1812 5.2.2 (4)", Status: Kept,
			Says: "The header is at least 20 bytes long and not longer than the packet",
			Does: "Dropped silently.",
			Cases: all(drop(batch.HeaderLength), nil,
				Case{Name: "of 16 bytes", Frame: edit(v4, 0, 0x44)},
				Case{Name: "of none", Frame: edit(v4, 0, 0x40)},
				Case{Name: "beyond the packet", Frame: edit(v4, 0, 0x4f, 0, 0, 59)},
			),
		},
		{
			Key: "ipv4/total-length", Source: "RFC 1812 5.2.2 (5)", Status: Kept,
			Says: "The total length includes the header and does not exceed the frame",
			Does: "Dropped silently.",
			Cases: append(all(drop(batch.BadLength), nil,
				Case{Name: "below the header's", Frame: edit(v4, 2, 0, 19)},
				Case{Name: "of none", Frame: edit(v4, 2, 0, 0)},
				Case{Name: "one byte beyond the frame", Frame: edit(v4, 2, 0, 69)},
				Case{Name: "of 65535", Frame: edit(v4, 2, 0xff, 0xff)},
			), Case{Name: "of a header alone", Frame: edit(v4, 2, 0, 20), Verdict: forward(1)}),
		},
		{
			Key: "ipv4/checksum", Source: "RFC 1812 5.2.2 (2)", Status: Kept,
			Says: "A packet with a wrong header checksum is discarded silently",
			Does: "Dropped silently.",
			Cases: all(drop(batch.BadChecksum), nil,
				Case{Name: "a bit of the checksum", Frame: flipped(v4, 10, 0x80)},
				Case{Name: "a bit of the header", Frame: flipped(v4, 4, 0x01)},
				Case{Name: "no checksum", Frame: flipped(v4, 10, v4[24], v4[25])},
			),
		},
		{
			Key: "ipv4/ttl", Source: "RFC 1812 5.3.1", Status: Kept,
			Says: "The TTL is decremented; a packet whose TTL becomes 0 is discarded with an ICMP error",
			Does: "Dropped, with an error from the ingress port.",
			Cases: append(all(drop(batch.TTLExpired), &Error{11, 0, 0},
				Case{Name: "TTL 1", Frame: hops(v4, 1)},
				Case{Name: "TTL 0", Frame: hops(v4, 0)},
			),
				Case{Name: "TTL 2", Frame: hops(v4, 2), Verdict: forward(1)},
				Case{Name: "TTL 255", Frame: hops(v4, 255), Verdict: forward(1)},
			),
			Tests: []string{"internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "ipv4/ttl-before-route", Source: "RFC 1812 5.2.1.2", Status: Departs,
			Says: "The route lookup precedes the TTL check, so that an expired packet without a route is reported as unroutable",
			Does: "Validation checks the TTL first and reports that; both errors are true, and it saves a lookup.",
			Cases: all(drop(batch.TTLExpired), &Error{11, 0, 0},
				Case{Name: "no route", Frame: hops(to4("172.16.0.1"), 1)},
				Case{Name: "blackhole", Frame: hops(to4("10.7.0.1"), 1)},
			),
			Tests: []string{"internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "ipv4/incremental-checksum", Source: "RFC 1624 3", Status: Kept,
			Says: "The header checksum is correct after the TTL was decremented, also where it wraps",
			Does: "By equation 3.",
			Cases: all(forward(1), nil,
				Case{Name: "to 0x0000", Frame: withChecksum(v4, 0xff00)},
				Case{Name: "to 0xfeff", Frame: withChecksum(v4, 0xfdff)},
				Case{Name: "from 0xfeff", Frame: withChecksum(v4, 0xfeff)},
				Case{Name: "from 0xffff - 1", Frame: withChecksum(v4, 0xfffe)},
				Case{Name: "from 0x0000", Frame: withChecksum(v4, 0)},
			),
			Tests: []string{"packet.TestDecrementTTLKeepsTheChecksumRight", "packet.TestUpdateChecksumEqualsRecomputation"},
		},
		{
			Key: "ipv4/type-of-service", Source: "RFC 1812 5.3.2, RFC 2474, RFC 3168 5", Status: Kept,
			Says: "DSCP and ECN are forwarded unchanged, known or unknown",
			Does: "Unchanged.",
			Cases: all(forward(1), nil,
				Case{Name: "expedited forwarding", Frame: edit(v4, 1, 0xb8)},
				Case{Name: "all bits", Frame: edit(v4, 1, 0xff)},
				Case{Name: "congestion experienced", Frame: edit(v4, 1, 0x03)},
			),
		},
		{
			Key: "ipv4/precedence", Source: "RFC 1812 5.3.3", Status: Departs,
			Says: "Packets of higher precedence leave before others (SHOULD)",
			Does: "Packets leave in order of arrival, by one queue per port. Linux's queueing disciplines do not see AF_XDP traffic.",
			Cases: all(forward(1), nil,
				Case{Name: "network control", Frame: edit(v4, 1, 0xe0)},
				Case{Name: "flash override", Frame: edit(v4, 1, 0x80)},
				Case{Name: "lower effort", Frame: edit(v4, 1, 0x04)},
				Case{Name: "IPv6, network control", Frame: edit(to6("fd01::9"), 0, 0x6e)},
			),
			Tests: []string{"dataplane.TestPrecedenceDoesNotReorder", "dataplane.TestPacketsAreNotReordered"},
		},
		{
			Key: "ipv4/unused-bits", Source: "RFC 1812 4.2.2.3", Status: Kept,
			Says: "No packet is dropped because of reserved bits or its identification",
			Does: "Unchanged, in every fragment. (Linux clears the reserved flag when it fragments.)",
			Cases: all(forward(1), nil,
				Case{Name: "the reserved flag", Frame: edit(v4, 6, 0x80)},
				Case{Name: "the reserved flag and DF", Frame: edit(v4, 6, 0xc0)},
				Case{Name: "an identification", Frame: edit(v4, 4, 0xbe, 0xef)},
			),
		},
		{
			Key: "ipv4/protocols", Source: "RFC 1812 5.1", Status: Kept,
			Says: "A router forwards every protocol",
			Does: "Forwarded; only the IP header decides, except for TCP fragments at offset 1.",
			Cases: all(forward(1), nil,
				Case{Name: "an experimental one", Frame: proto4("10.1.0.9", 253, pattern(40)...)},
				Case{Name: "IGMP", Frame: proto4("10.1.0.9", 2, pattern(8)...)},
				Case{Name: "ESP", Frame: proto4("10.1.0.9", 50, pattern(40)...)},
				Case{Name: "an ICMP error for another", Frame: proto4("10.1.0.9", 1, append([]byte{3, 1, 0, 0, 0, 0, 0, 0}, pattern(40)...)...)},
				Case{Name: "nothing", Frame: proto4("10.1.0.9", 6)},
			),
		},
		{
			Key: "ipv4/options", Source: "RFC 1812 4.2.2.1, 5.3.13, RFC 7126", Status: KeptByLinux,
			Says:  "Routers that know an option process it (record route, timestamp, security, stream) and ignore others",
			Does:  "Punted to Linux, which forwards them by its own rules if `net.ipv4.ip_forward` is on, and otherwise drops them. An IPsec gateway punts only those to the host itself and drops the others (`transit_ipv4_options`). An engine would drop them.",
			Cases: all(drop(batch.IPOptions), nil, Case{Name: "one word of no-ops", Frame: optioned(1, 1, 1, 0)}, Case{Name: "record route", Frame: optioned(7, 7, 4, 0, 0, 0, 0, 0)}),
			Tests: []string{"afxdp.TestSteer/one word of IPv4 options", "afxdp.TestSteer/ten words of IPv4 options", "afxdp.TestSteer/IPv4 options said, header cut", "afxdp.TestGatewayPassesNoTransitToLinux", "internal/e2e.TestForwardingEqualsLinux", "internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "ipv4/source-route", Source: "RFC 7126 4.3, 4.4", Status: KeptByLinux,
			Says:  "Loose and strict source routes are dropped unless configured otherwise",
			Does:  "Punted to Linux, which forwards them only if `net.ipv4.ip_forward` and `accept_source_route` are on.",
			Cases: all(drop(batch.IPOptions), nil, Case{Name: "loose", Frame: optioned(131, 7, 4, 10, 9, 9, 9, 0)}, Case{Name: "strict", Frame: optioned(137, 7, 4, 10, 9, 9, 9, 0)}),
			Tests: []string{"afxdp.TestSteer/ten words of IPv4 options"},
		},
		{
			Key: "ipv4/router-alert", Source: "RFC 6398 5, RFC 7126 4.8", Status: KeptByLinux,
			Says:  "A router alert does not slow down other packets and may be ignored",
			Does:  "Punted to Linux like all options.",
			Cases: all(drop(batch.IPOptions), nil, Case{Name: "router alert", Frame: optioned(148, 4, 0, 0)}),
			Tests: []string{"afxdp.TestSteer/one word of IPv4 options"},
		},
		{
			Key: "ipv4/tiny-fragment", Source: "RFC 1858 3, RFC 3128", Status: Kept,
			Says: "A TCP fragment at offset 1, which would overwrite the flags of the first fragment, is discarded",
			Does: "Dropped silently. Fragments at offset 1 of other protocols are forwarded. (Linux forwards all.)",
			Cases: append(all(drop(batch.FragmentOverlap), nil,
				Case{Name: "the last of several", Frame: edit(proto4("10.1.0.9", 6, pattern(40)...), 6, 0, 1)},
				Case{Name: "one of several", Frame: edit(proto4("10.1.0.9", 6, pattern(40)...), 6, 0x20, 1)},
			),
				Case{Name: "UDP", Frame: edit(v4, 6, 0, 1), Verdict: forward(1)},
				Case{Name: "TCP at offset 2", Frame: edit(proto4("10.1.0.9", 6, pattern(40)...), 6, 0, 2), Verdict: forward(1)},
			),
		},
	}
}

// flipped inverts bits of a packet without updating its checksum.
func flipped(f []byte, at int, bits ...byte) []byte {
	f = bytes.Clone(f)
	for i, b := range bits {
		f[ethernetLen+at+i] ^= b
	}
	return f
}

// withChecksum returns a packet with an identification that results in a checksum.
func withChecksum(f []byte, sum uint16) []byte {
	for id := range 1 << 16 {
		if f := edit(f, 4, byte(id>>8), byte(id)); binary.BigEndian.Uint16(f[24:]) == sum {
			return f
		}
	}
	panic("no identification makes that checksum") // a mistake in a rule, not a result of one
}

// optioned returns a packet with options, a multiple of 4 bytes.
func optioned(options ...byte) []byte {
	f := proto4("10.1.0.9", 17, append(bytes.Clone(options), pattern(40)...)...)
	f[ethernetLen] += byte(len(options) / 4)
	p := f[ethernetLen:]
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], ^testutil.Sum(p[:20+len(options)]))
	return f
}

// unfinished leaves the bare pseudo-header sum in a UDP packet's checksum field.
func unfinished(f []byte) []byte {
	p := f[ethernetLen:]
	if p[0]>>4 == 4 {
		return testutil.Unfinished(f, ethernetLen+26, p[12:20], 17, len(p)-20)
	}
	return testutil.Unfinished(f, ethernetLen+46, p[8:40], 17, len(p)-40)
}
