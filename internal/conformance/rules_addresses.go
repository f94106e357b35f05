package conformance

import "github.com/warproute/warproute/batch"

func addressRules() []Rule {
	return []Rule{
		{
			Key: "addresses/source4", Source: "RFC 1812 4.2.2.11, 5.3.7, RFC 1122 3.2.1.3", Status: Kept,
			Says: "A packet from an address that no host can have is not forwarded: 0/8, 127/8, multicast, 240/4, broadcast",
			Does: "Dropped silently. (Linux forwards from and to 240/4, and 0/8 except 0.0.0.0.)",
			Cases: append(all(drop(batch.SourceMartian), nil,
				Case{Name: "0.0.0.0", Frame: from4("0.0.0.0")},
				Case{Name: "0/8", Frame: from4("0.1.2.3")},
				Case{Name: "127/8", Frame: from4("127.0.0.1")},
				Case{Name: "multicast", Frame: from4("224.0.0.5")},
				Case{Name: "240/4", Frame: from4("240.0.0.1")},
				Case{Name: "broadcast", Frame: from4("255.255.255.255")},
			), all(forward(1), nil,
				Case{Name: "1/8", Frame: from4("1.0.0.1")},
				Case{Name: "126/8", Frame: from4("126.255.255.255")},
				Case{Name: "128/8", Frame: from4("128.0.0.1")},
				Case{Name: "223/8", Frame: from4("223.255.255.255")},
			)...),
		},
		{
			Key: "addresses/destination4", Source: "RFC 1812 5.3.7, 4.2.3.1", Status: Kept,
			Says: "A packet to 0/8, 127/8 or 240/4 is not forwarded",
			Does: "Dropped silently.",
			Cases: append(all(drop(batch.DestMartian), nil,
				Case{Name: "0.0.0.0", Frame: to4("0.0.0.0")},
				Case{Name: "0/8", Frame: to4("0.1.2.3")},
				Case{Name: "127/8", Frame: to4("127.0.0.1")},
				Case{Name: "240/4", Frame: to4("240.0.0.1")},
			), Case{Name: "10/8", Frame: to4("10.1.0.9"), Verdict: forward(1)}),
		},
		{
			Key: "addresses/link-local4", Source: "RFC 3927 7", Status: Kept,
			Says: "A packet from or to 169.254/16 is not forwarded",
			Does: "Dropped silently. (Linux forwards it.)",
			Cases: append(append(
				all(drop(batch.SourceMartian), nil, Case{Name: "from", Frame: from4("169.254.1.1")}),
				all(drop(batch.DestMartian), nil, Case{Name: "to", Frame: to4("169.254.1.1")})...),
				Case{Name: "from 169.253/16", Frame: from4("169.253.255.255"), Verdict: forward(1)},
				Case{Name: "from 169.255/16", Frame: from4("169.255.0.0"), Verdict: forward(1)},
			),
		},
		{
			Key: "addresses/broadcast4", Source: "RFC 1812 5.3.5.1", Status: Kept,
			Says:  "A packet to 255.255.255.255 is not forwarded",
			Does:  "Punted to Linux, which receives it as a host. An engine would drop it.",
			Cases: all(drop(batch.DestMartian), nil, Case{Name: "limited broadcast", Frame: to4("255.255.255.255")}),
			Tests: []string{"afxdp.TestSteer/limited broadcast"},
		},
		{
			Key: "addresses/directed-broadcast", Source: "RFC 2644, RFC 1812 5.3.5.2", Status: Kept,
			Says:  "A packet to the broadcast address of a connected network is not broadcast there, unless configured otherwise",
			Does:  "Punted to Linux, which forwards it only if `bc_forwarding` and `net.ipv4.ip_forward` are on.",
			Tests: []string{"afxdp.TestSteer/our subnet's broadcast", "control/mirror.TestLocalAddresses", "internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "addresses/multicast", Source: "RFC 1812 5.3.1, RFC 4291 2.7", Status: KeptByLinux,
			Says: "Multicast is forwarded only by multicast routes, and causes no errors",
			Does: "Punted to Linux with its groups and multicast routes. An engine would drop it silently, with any TTL.",
			Cases: all(drop(batch.DestMartian), nil,
				Case{Name: "IPv4", Frame: to4("239.1.1.1")},
				Case{Name: "IPv4, TTL 1", Frame: hops(to4("224.0.0.5"), 1)},
				Case{Name: "IPv6, of the link", Frame: to6("ff02::1")},
				Case{Name: "IPv6, global", Frame: to6("ff0e::1")},
				Case{Name: "IPv6, hop limit 1", Frame: hops(to6("ff05::1"), 1)},
			),
			Tests: []string{"afxdp.TestSteer/224.0.0.0, the first group", "afxdp.TestSteer/239.255.255.255, the last group", "afxdp.TestSteer/IPv6 group", "internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "addresses/unspecified6", Source: "RFC 4291 2.5.2", Status: Kept,
			Says: "A packet from or to :: is not forwarded",
			Does: "Dropped silently.",
			Cases: []Case{
				{Name: "from", Frame: from6("::"), Verdict: drop(batch.SourceMartian)},
				{Name: "to", Frame: to6("::"), Verdict: drop(batch.DestMartian)},
				{Name: "from ::2", Frame: from6("::2"), Verdict: forward(1)},
			},
		},
		{
			Key: "addresses/loopback6", Source: "RFC 4291 2.5.3", Status: Kept,
			Says: "A packet from or to ::1 is not forwarded",
			Does: "Dropped silently.",
			Cases: []Case{
				{Name: "from", Frame: from6("::1"), Verdict: drop(batch.SourceMartian)},
				{Name: "to", Frame: to6("::1"), Verdict: drop(batch.DestMartian)},
			},
		},
		{
			Key: "addresses/mapped6", Source: "RFC 4942 2.2, RFC 4291 2.5.5.2", Status: Kept,
			Says: "A packet from or to an IPv4-mapped address is not forwarded",
			Does: "Dropped silently. (Linux forwards packets to one, and to ::.)",
			Cases: []Case{
				{Name: "from", Frame: mapped(8), Verdict: drop(batch.SourceMartian)},
				{Name: "to", Frame: mapped(24), Verdict: drop(batch.DestMartian)},
			},
		},
		{
			Key: "addresses/link-local6", Source: "RFC 4291 2.5.6, RFC 4007 9", Status: Kept,
			Says: "A packet from or to a link-local address is not forwarded to another link",
			Does: "Punted to Linux. An engine would drop it.",
			Cases: []Case{
				{Name: "from", Frame: from6("fe80::1"), Verdict: drop(batch.SourceMartian)},
				{Name: "from the last", Frame: from6("febf::1"), Verdict: drop(batch.SourceMartian)},
				{Name: "to", Frame: to6("fe80::1"), Verdict: drop(batch.DestMartian)},
				{Name: "from fe7f::", Frame: from6("fe7f::1"), Verdict: forward(1)},
			},
			Tests: []string{"afxdp.TestSteer/to a link-local address", "afxdp.TestSteer/from a link-local address", "afxdp.TestSteer/febf::, the end of link-local", "afxdp.TestSteer/fe7f::, below link-local"},
		},
		{
			Key: "addresses/beyond-scope6", Source: "RFC 4443 3.1, RFC 4007 9", Status: Departs,
			Says:  "A packet from a link-local to a global address causes an error: beyond scope of source address (1/2)",
			Does:  "No error and not forwarded: punted to Linux, which drops it while its own forwarding is off.",
			Tests: []string{"afxdp.TestSteer/from a link-local address", "internal/e2e.TestForwardingEqualsLinux", "internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "addresses/multicast-source6", Source: "RFC 4291 2.7", Status: Kept,
			Says:  "A packet from a multicast address is not forwarded",
			Does:  "Dropped silently.",
			Cases: all(drop(batch.SourceMartian), nil, Case{Name: "of the link", Frame: from6("ff02::1")}, Case{Name: "global", Frame: from6("ff0e::1")}),
		},
		{
			Key: "addresses/site-local6", Source: "RFC 3879 4, RFC 4193 4.3, RFC 4291 2.5.4", Status: Kept,
			Says: "Site-local and unique local addresses are forwarded like global ones",
			Does: "By their routes.",
			Cases: all(forward(1), nil,
				Case{Name: "from fec0::", Frame: from6("fec0::1")},
				Case{Name: "from fd00::", Frame: from6("fd99::1")},
			),
		},
		{
			Key: "addresses/own-source", Source: "RFC 1812 5.3.7, RFC 1122 3.2.1.3, peers", Status: Kept,
			Says:  "A packet from outside with a source address of this router, or the broadcast address of a connected network, is not forwarded",
			Does:  "Punted to Linux, which drops it. (With forwarding on, Linux drops only those from its own IPv4 addresses, unless `accept_local` is on.)",
			Tests: []string{"afxdp.TestSteer/from our IPv4 address", "afxdp.TestSteer/from our subnet's broadcast", "afxdp.TestSteer/from our IPv6 address", "internal/e2e.TestForwardingEqualsLinux", "internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "addresses/reverse-path", Source: "RFC 1812 5.3.8, RFC 3704", Status: Kept,
			Says:  "Packets from sources without a route back by the ingress port can be dropped (strict, loose)",
			Does:  "By Linux's `rp_filter` of the interface, followed at run time, or `reverse_path` of the port, which applies to IPv6, too. The engine drops them silently as `reverse_path` before all other checks. As in Linux, the check applies to outer, not inner packets of a tunnel. A port belongs to a multipath route if flows use it, also with the smallest weight. Linux skips a path whose port has lost its addresses and accepts packets from it; warproute drops them.",
			Tests: []string{"dataplane.TestReversePathFiltering", "dataplane.TestReversePathChangesUnderLoad", "dataplane/cpu.TestReversePathPrecedesValidation", "dataplane/esp.TestReversePathPrecedesPolicies", "dataplane/gpu.TestKernelCodeAgreesOnSources", "fib.TestStrictRPFAcceptsPathsOfSmallWeight", "internal/e2e.TestReversePathCheckEqualsLinux"},
		},
	}
}

// mapped returns a packet with ::ffff:10.0.0.1 at an offset.
func mapped(at int) []byte {
	return edit(to6("fd01::9"), at, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1)
}
