package conformance

import "github.com/warproute/warproute/batch"

func routeRules() []Rule {
	return []Rule{
		{
			Key: "route/longest", Source: "RFC 1812 5.2.4.3", Status: Kept,
			Says: "The longest prefix that covers the destination decides",
			Does: "By tables that are compared with Linux's own answers, and with a list.",
			Cases: []Case{
				{Name: "IPv4, the short one", Frame: to4("10.12.8.255"), Verdict: forward(4)},
				{Name: "IPv4, the long one", Frame: to4("10.12.9.0"), Verdict: drop(batch.Blackhole)},
				{Name: "IPv6, the short one", Frame: to6("fd0c::8:ffff"), Verdict: forward(4)},
				{Name: "IPv6, the long one", Frame: to6("fd0c::9:1"), Verdict: drop(batch.Blackhole)},
			},
			Tests: []string{"lookup.TestLinuxFindsTheSamePrefix", "lookup.TestTablesAgreeWithTheOracle", "lookup/ipv4.TestKernelsAgreeWithTheOracle", "lookup/ipv6.TestKernelsAgreeWithTheOracle", "lookup/trie.TestDeviceWalksAgree", "lookup/device.TestAgreesWithTheOracle"},
		},
		{
			Key: "route/every-length", Source: "RFC 1812 5.2.4.3, RFC 7608", Status: Kept,
			Says:  "Prefixes of every length, /0 to /32 and /0 to /128, are routes",
			Does:  "All of them.",
			Tests: []string{"lookup.TestTablesAgreeWithTheOracle", "lookup.TestTheDefaultRouteAndALongerOneTakeTurns"},
		},
		{
			Key: "route/changes", Source: "RFC 1812 5.2.4, peers", Status: Kept,
			Says:  "A packet takes the old or the new route while routes change, and never another",
			Does:  "One store is one change.",
			Tests: []string{"lookup/trie.TestEveryPatchLeavesTheOldOrTheNewRoute", "internal/e2e.TestRouteChangesTakeEffectAndDisturbNothing", "control/mirror.TestRandomChanges"},
		},
		{
			Key: "route/none", Source: "RFC 1812 5.2.7.1, RFC 4443 3.1", Status: Kept,
			Says: "The source of a packet without a route is told: network unreachable, no route",
			Does: "Dropped, with an error.",
			Cases: append(
				all(drop(batch.NoRoute), &Error{3, 0, 0}, Case{Name: "IPv4", Frame: to4("172.16.0.1")}),
				all(drop(batch.NoRoute), &Error{1, 0, 0}, Case{Name: "IPv6", Frame: to6("2001:db8:ffff::1")})...),
		},
		{
			Key: "route/blackhole", Source: "RFC 1812 5.2.7.1, ip-route(8)", Status: Kept,
			Says:  "What has a blackhole route is discarded silently",
			Does:  "Dropped silently.",
			Cases: all(drop(batch.Blackhole), nil, Case{Name: "IPv4", Frame: to4("10.7.0.1")}, Case{Name: "IPv6", Frame: to6("fd07::1")}),
		},
		{
			Key: "route/unreachable", Source: "RFC 1812 5.2.7.1, RFC 4443 3.1, ip-route(8)", Status: Kept,
			Says: "The source of a packet with an unreachable route is told: host unreachable, address unreachable",
			Does: "Dropped, with an error. (Linux answers IPv6 as if there were no route, 1/0.)",
			Cases: append(
				all(drop(batch.Unreachable), &Error{3, 1, 0}, Case{Name: "IPv4", Frame: to4("10.8.0.1")}),
				all(drop(batch.Unreachable), &Error{1, 3, 0}, Case{Name: "IPv6", Frame: to6("fd08::1")})...),
		},
		{
			Key: "route/prohibit", Source: "RFC 1812 5.2.7.1, RFC 4443 3.1, ip-route(8)", Status: Kept,
			Says: "The source of a packet with a prohibit route is told: communication administratively prohibited",
			Does: "Dropped, with an error.",
			Cases: append(
				all(drop(batch.Prohibit), &Error{3, 13, 0}, Case{Name: "IPv4", Frame: to4("10.9.0.1")}),
				all(drop(batch.Prohibit), &Error{1, 1, 0}, Case{Name: "IPv6", Frame: to6("fd09::1")})...),
		},
		{
			Key: "route/types", Source: "ip-route(8)", Status: Kept,
			Says:  "Routes of Linux mean what they mean to Linux: types, metrics, multipath, next-hop objects",
			Does:  "Mirrored by netlink. Policy rules, routes by type of service or source, of other tables, and local prefixes are not, and are warned of.",
			Tests: []string{"control/mirror.TestRoutes", "control/mirror.TestNexthopObjects", "control/mirror.TestRandomChanges", "control/mirror.TestRoutesWhoseTimeIsOver", "control/mirror.TestPathsLostWithTheAddressesOfTheirLink", "control/mirror.TestStatusWarnsOfWhatIsNotSupported", "internal/e2e.TestLinuxDoesTheSame"},
		},
		{
			Key: "route/settings", Source: "peers", Status: Departs,
			Says:  "What Linux's settings say of forwarding holds: `forwarding` of an interface, `disable_ipv6`",
			Does:  "They are of what Linux forwards itself. A port forwards what it receives, in both families, by whatever routes there are; where IPv6 is disabled there are none back.",
			Tests: []string{"internal/e2e.TestPortsForwardWhateverLinuxWould"},
		},
		{
			Key: "route/elsewhere", Source: "peers", Status: Departs,
			Says:  "A route may leave by any interface",
			Does:  "One that is no port of this router is out of reach of AF_XDP: dropped silently, and counted.",
			Cases: all(drop(batch.NoPort), nil, Case{Name: "IPv4", Frame: to4("10.10.0.1")}, Case{Name: "IPv6", Frame: to6("fd0a::1")}),
		},
		{
			Key: "route/down", Source: "RFC 1812 3.3.4.3", Status: Kept,
			Says:  "Nothing is sent by a link that is down",
			Does:  "Dropped silently; Linux's routes by it are gone with the link, and others take over.",
			Cases: all(drop(batch.PortDown), nil, Case{Name: "IPv4", Frame: to4("10.3.0.1")}, Case{Name: "IPv6", Frame: to6("fd03::1")}),
			Tests: []string{"control/mirror.TestLinkDownAndUp", "control/mirror.TestLinkWithoutCarrier", "internal/e2e.TestALinkThatGoesDownAndUp"},
		},
		{
			Key: "route/neighbour", Source: "RFC 1122 2.3.2.2, RFC 4861 7.2.2, RFC 826", Status: Kept,
			Says: "A packet whose neighbour is not known waits while the neighbour is asked for, in order, a few at a time",
			Does: "Held, and Linux is asked for the neighbour; retried when it answers.",
			Cases: []Case{
				{Name: "IPv4", Frame: to4("10.4.0.1"), Verdict: batch.Hold},
				{Name: "IPv6", Frame: to6("fd04::1"), Verdict: batch.Hold},
			},
			Tests: []string{"dataplane.TestPacketsWaitForTheirNeighbour", "dataplane.TestWaitingPacketsStayInOrder", "dataplane.TestOneSilentHostDoesNotFillTheHold", "dataplane.TestAScanFillsTheHoldAndNoMore", "internal/e2e.TestFirstPacketsWaitForTheirNeighbour"},
		},
		{
			Key: "route/neighbour-silent", Source: "RFC 1812 3.3.2, 5.2.7.1, RFC 4861 7.2.2", Status: Kept,
			Says:  "The source of a packet whose neighbour does not answer is told: host unreachable, address unreachable",
			Does:  "Dropped after 3 s as `neighbor_unresolved`, with ICMP 3/1 or ICMPv6 1/3.",
			Tests: []string{"dataplane.TestAPacketWaitsOnlySoLong", "packet/icmp.TestErrorsAreLinuxs/IPv4, no neighbour", "packet/icmp.TestErrorsAreLinuxs/IPv6, no neighbour"},
		},
		{
			Key: "route/neighbour-rate", Source: "RFC 1122 2.3.2.1, RFC 4861 7.2.2", Status: Kept,
			Says:  "Neighbours are not asked for in floods, and one that moves is noticed",
			Does:  "Linux asks, and checks what is stale; the requests to it are bounded and never block a worker.",
			Tests: []string{"control/mirror.TestResolveIsBounded", "control/mirror.TestResolveNeverBlocks", "control/mirror.TestStaleNeighborsInUseAreChecked", "internal/e2e.TestNeighbourChangesTakeEffect"},
		},
		{
			Key: "route/multipath", Source: "RFC 2992, RFC 1812 5.2.4.3 (6)", Status: Kept,
			Says: "The packets of one flow take one path, different flows spread by weight, and routers in a row choose apart",
			Does: "By a seeded hash of addresses, protocol and ports.",
			Tests: []string{"dataplane/cpu.TestMultipath", "packet.TestFlowHashDependsOnTheFlowAndTheSeed", "packet.TestFlowHashSpreads",
				"dataplane/gpu.TestKernelCodeAgreesWithTheCPUEngine", "internal/e2e.TestMultipathKeepsFlowsOnTheirPaths", "fib.TestBucketsFollowTheWeights"},
		},
		{
			Key: "route/multipath-loss", Source: "RFC 2992, peers", Status: Kept,
			Says:  "When a path is lost or added, no flow moves that need not",
			Does:  "The buckets of a lost path are given to the others; those of the others stay.",
			Tests: []string{"fib.TestADeadPathMovesOnlyItsOwnFlows", "fib.TestNoMoreFlowsMoveThanMust", "fib.TestFlowsStayWithAPathThatStays", "internal/e2e.TestMultipathKeepsFlowsOnTheirPaths"},
		},
		{
			Key: "route/multipath-fragments", Source: "RFC 2992, peers", Status: Kept,
			Says:  "The fragments of a packet take one path",
			Does:  "They are hashed by addresses alone.",
			Tests: []string{"packet.TestFragmentsOfAPacketHashAlike", "internal/e2e.TestMultipathKeepsFragmentsTogether"},
		},
		{
			Key: "route/ipv4-via-ipv6", Source: "RFC 8950, RFC 5549", Status: Kept,
			Says:  "An IPv4 route may have an IPv6 next hop",
			Does:  "As Linux's route has it.",
			Tests: []string{"control/mirror.TestRoutes/IPv4 via IPv6"},
		},
		{
			Key: "route/vrf", Source: "peers", Status: Departs,
			Says: "An interface may have a routing table of its own (VRF)",
			Does: "The main table of a network namespace is all that is mirrored; a router in a namespace of its own is one. So that nothing gets from one VRF into another, " +
				"no router starts on a port that is in one, and a port that is put into one is Linux's alone until it is out again: nothing leaves by it, and Linux has all that arrives.",
			Tests: []string{"control/mirror.TestRoutes/other tables and link-local prefixes are not followed", "control/mirror.TestAPortInAVRFIsLent", "control/mirror.TestNoStartWithAPortInAVRF",
				"afxdp.TestLend", "control/doctor.TestLinkChecks/in a VRF"},
		},
		{
			Key: "route/filter", Source: "RFC 1812 5.3.9, peers", Status: Departs,
			Says: "Packets can be filtered by their addresses, protocol and ports",
			Does: "A gateway's policies discard by 5-tuples, fragments included; there are no other filters. Netfilter does not see what AF_XDP takes: " +
				"where it has rules, or policies that drop, for forwarded packets, `doctor` and the router at its start name them.",
			Tests: []string{"dataplane/cpu.TestPoliciesDecideWhatPasses", "dataplane/gpu.TestGatewayCodeAgreesWithTheCPUEngine", "ipsec/gateway.TestFragmentsDoNotEscapePoliciesOfPorts", "control/netfilter.TestForwarding", "control/doctor.TestHostChecks/a firewall that forwarded packets do not pass", "internal/e2e.TestAFirewallIsPointedOut"},
		},
	}
}
