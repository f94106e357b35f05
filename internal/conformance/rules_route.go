package conformance

import "github.com/warproute/warproute/batch"

func routeRules() []Rule {
	return []Rule{
		{
			Key: "route/longest", Source: "RFC 1812 5.2.4.3", Status: Kept,
			Says: "The longest matching prefix decides",
			Does: "By tables that tests compare with Linux's answers and with a linear search.",
			Cases: []Case{
				{Name: "IPv4, the short one", Frame: to4("10.12.8.255"), Verdict: forward(4)},
				{Name: "IPv4, the long one", Frame: to4("10.12.9.0"), Verdict: drop(batch.Blackhole)},
				{Name: "IPv6, the short one", Frame: to6("fd0c::8:ffff"), Verdict: forward(4)},
				{Name: "IPv6, the long one", Frame: to6("fd0c::9:1"), Verdict: drop(batch.Blackhole)},
			},
			Tests: []string{"lookup.TestLinuxFindsTheSamePrefix", "lookup.TestTablesAgreeWithTheOracle", "lookup/ipv4.TestKernelsAgreeWithOracle", "lookup/ipv6.TestKernelsAgreeWithOracle", "lookup/trie.TestDeviceWalksAgree", "lookup/device.TestLookupBatchAgreesWithOracle"},
		},
		{
			Key: "route/every-length", Source: "RFC 1812 5.2.4.3, RFC 7608", Status: Kept,
			Says:  "Prefixes of every length are routes: /0 to /32 and /0 to /128",
			Does:  "All lengths.",
			Tests: []string{"lookup.TestTablesAgreeWithTheOracle", "lookup.TestReplacingTheDefaultRouteNeverMisses"},
		},
		{
			Key: "route/changes", Source: "RFC 1812 5.2.4, peers", Status: Kept,
			Says:  "During a change a packet takes the old or the new route, never another",
			Does:  "A change is one store.",
			Tests: []string{"lookup/trie.TestEveryPatchLeavesTheOldOrTheNewRoute", "internal/e2e.TestRouteChangesTakeEffectWithoutLoss", "control/mirror.TestRandomChanges"},
		},
		{
			Key: "route/none", Source: "RFC 1812 5.2.7.1, RFC 4443 3.1", Status: Kept,
			Says: "A packet without a route causes an error: network unreachable, no route",
			Does: "Dropped, with an error.",
			Cases: append(
				all(drop(batch.NoRoute), &Error{3, 0, 0}, Case{Name: "IPv4", Frame: to4("172.16.0.1")}),
				all(drop(batch.NoRoute), &Error{1, 0, 0}, Case{Name: "IPv6", Frame: to6("2001:db8:ffff::1")})...),
		},
		{
			Key: "route/blackhole", Source: "RFC 1812 5.2.7.1, ip-route(8)", Status: Kept,
			Says:  "A packet with a blackhole route is discarded silently",
			Does:  "Dropped silently.",
			Cases: all(drop(batch.Blackhole), nil, Case{Name: "IPv4", Frame: to4("10.7.0.1")}, Case{Name: "IPv6", Frame: to6("fd07::1")}),
		},
		{
			Key: "route/unreachable", Source: "RFC 1812 5.2.7.1, RFC 4443 3.1, ip-route(8)", Status: Kept,
			Says: "A packet with an unreachable route causes an error: host unreachable, address unreachable",
			Does: "Dropped, with an error. (Linux answers IPv6 as if there were no route, 1/0.)",
			Cases: append(
				all(drop(batch.Unreachable), &Error{3, 1, 0}, Case{Name: "IPv4", Frame: to4("10.8.0.1")}),
				all(drop(batch.Unreachable), &Error{1, 3, 0}, Case{Name: "IPv6", Frame: to6("fd08::1")})...),
		},
		{
			Key: "route/prohibit", Source: "RFC 1812 5.2.7.1, RFC 4443 3.1, ip-route(8)", Status: Kept,
			Says: "A packet with a prohibit route causes an error: communication administratively prohibited",
			Does: "Dropped, with an error.",
			Cases: append(
				all(drop(batch.Prohibit), &Error{3, 13, 0}, Case{Name: "IPv4", Frame: to4("10.9.0.1")}),
				all(drop(batch.Prohibit), &Error{1, 1, 0}, Case{Name: "IPv6", Frame: to6("fd09::1")})...),
		},
		{
			Key: "route/types", Source: "ip-route(8)", Status: Kept,
			Says:  "Linux's routes keep their meaning: types, metrics, multipath, next-hop objects",
			Does:  "Mirrored by netlink. Policy rules other than by ingress interface, their tables, and routes by type of service or source are not mirrored, and packets to local prefixes are dropped; the router warns about them.",
			Tests: []string{"control/mirror.TestRoutes", "control/mirror.TestNexthopObjects", "control/mirror.TestRandomChanges", "control/mirror.TestExpiredRoutesAreDeleted", "control/mirror.TestPathsWithoutLinkAddressesAreDead", "control/mirror.TestStatusWarnsOfUnsupportedRoutes", "internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "route/settings", Source: "peers", Status: Departs,
			Says:  "Linux's forwarding settings apply: `forwarding` of an interface, `disable_ipv6`",
			Does:  "They apply to Linux's own forwarding. A port forwards both families by the existing routes; where IPv6 is disabled, there are no routes back.",
			Tests: []string{"internal/e2e.TestPortsIgnoreLinuxForwardingSettings"},
		},
		{
			Key: "route/elsewhere", Source: "peers", Status: Departs,
			Says:  "A route may use any interface",
			Does:  "An interface that is no port is out of reach of AF_XDP: the engine drops, and the worker passes the packet to Linux if it forwards on the interface, with TTL, DF and errors as with Linux alone. A worker that also has packets between ports spends a share of its time on that. ICMP errors of the router itself do not leave by such an interface; those of Linux quote completed L4 checksums, and ICMPv6 ones have the address of the egress port. Without forwarding in Linux, and on gateways by default: dropped silently and counted.",
			Tests: []string{"dataplane.TestPacketsExitByLinux", "dataplane.TestTimeForLinuxIsLimited", "dataplane.TestProtectedPacketsDoNotExit", "internal/e2e.TestExitsEqualLinux", "internal/e2e.TestTransfersThroughExits", "internal/e2e.TestExitFollowsLinux", "internal/e2e/stock.TestLogicalPortsEqualLinux", "internal/e2e.TestGatewaysExitNothingProtected"},
			Cases: all(drop(batch.NoPort), nil, Case{Name: "IPv4", Frame: to4("10.10.0.1")}, Case{Name: "IPv6", Frame: to6("fd0a::1")}),
		},
		{
			Key: "route/down", Source: "RFC 1812 3.3.4.3", Status: Kept,
			Says:  "Nothing is sent by a link that is down",
			Does:  "Dropped silently; Linux removes the routes of the link, and others replace them.",
			Cases: all(drop(batch.PortDown), nil, Case{Name: "IPv4", Frame: to4("10.3.0.1")}, Case{Name: "IPv6", Frame: to6("fd03::1")}),
			Tests: []string{"control/mirror.TestLinkDownAndUp", "control/mirror.TestLinkWithoutCarrier", "internal/e2e.TestTrafficFollowsALinkDownAndUp"},
		},
		{
			Key: "route/neighbour", Source: "RFC 1122 2.3.2.2, RFC 4861 7.2.2, RFC 826", Status: Kept,
			Says: "Packets for an unresolved neighbor wait during its resolution, in order, a few at a time",
			Does: "Queued while Linux resolves the neighbor; sent afterwards.",
			Cases: []Case{
				{Name: "IPv4", Frame: to4("10.4.0.1"), Verdict: batch.Hold},
				{Name: "IPv6", Frame: to6("fd04::1"), Verdict: batch.Hold},
			},
			Tests: []string{"dataplane.TestPacketsWaitForUnresolvedNeighbor", "dataplane.TestPendingPacketsStayInOrder", "dataplane.TestPendingShareOfADestinationIsLimited", "dataplane.TestScanIsLimitedToThePendingQueue", "internal/e2e.TestFirstPacketsWaitForTheirNeighbor"},
		},
		{
			Key: "route/neighbour-silent", Source: "RFC 1812 3.3.2, 5.2.7.1, RFC 4861 7.2.2", Status: Kept,
			Says:  "A packet whose neighbor does not answer causes an error: host unreachable, address unreachable",
			Does:  "Dropped after 3 s as `neighbor_unresolved`, with ICMP 3/1 or ICMPv6 1/3.",
			Tests: []string{"dataplane.TestPendingPacketsExpire", "packet/icmp.TestErrorsEqualLinux/IPv4, no neighbour", "packet/icmp.TestErrorsEqualLinux/IPv6, no neighbour"},
		},
		{
			Key: "route/neighbour-rate", Source: "RFC 1122 2.3.2.1, RFC 4861 7.2.2", Status: Kept,
			Says:  "Neighbor requests are limited, and a neighbor that moves is detected",
			Does:  "Linux resolves and checks stale entries; requests to Linux are bounded and never block a worker.",
			Tests: []string{"control/mirror.TestResolveIsBounded", "control/mirror.TestResolveNeverBlocks", "control/mirror.TestStaleNeighborsInUseAreChecked", "internal/e2e.TestNeighborChangesTakeEffect"},
		},
		{
			Key: "route/multipath", Source: "RFC 2992, RFC 1812 5.2.4.3 (6)", Status: Kept,
			Says: "Packets of one flow take one path, flows spread by weight, and consecutive routers choose independently",
			Does: "By a seeded hash of addresses, protocol and ports.",
			Tests: []string{"dataplane/cpu.TestFlowsSpreadOverPaths", "packet.TestFlowHashDependsOnTheFlowAndTheSeed", "packet.TestFlowHashSpreads",
				"dataplane/gpu.TestKernelCodeAgreesWithTheCPUEngine", "internal/e2e.TestMultipathKeepsFlowsOnTheirPaths", "fib.TestBucketsFollowTheWeights"},
		},
		{
			Key: "route/multipath-loss", Source: "RFC 2992, peers", Status: Kept,
			Says:  "When a path is lost or added, only the flows that must move do",
			Does:  "The buckets of a lost path are redistributed; the others stay.",
			Tests: []string{"fib.TestDeadPathMovesOnlyItsOwnFlows", "fib.TestFewestFlowsMove", "fib.TestFlowsStayOnRemainingPaths", "internal/e2e.TestMultipathKeepsFlowsOnTheirPaths"},
		},
		{
			Key: "route/multipath-fragments", Source: "RFC 2992, peers", Status: Kept,
			Says:  "All fragments of a packet take one path",
			Does:  "Fragments are hashed by addresses only.",
			Tests: []string{"packet.TestFragmentsOfAPacketHashAlike", "internal/e2e.TestMultipathKeepsFragmentsTogether"},
		},
		{
			Key: "route/ipv4-via-ipv6", Source: "RFC 8950, RFC 5549", Status: Kept,
			Says:  "An IPv4 route may have an IPv6 next hop",
			Does:  "By Linux's route.",
			Tests: []string{"control/mirror.TestRoutes/IPv4 via IPv6"},
		},
		{
			Key: "route/vrf", Source: "peers", Status: Kept,
			Says: "An interface may have its own routing table (VRF)",
			Does: "Packets of a port in a VRF of Linux are looked up in its table alone; routes may lead to ports of other VRFs. Without a route there, Linux continues with table main, and the router drops as no_route. An address that is local in any VRF is punted to Linux, which forwards it where it is not local only if its forwarding is on. A gateway does not start on a port in a VRF, and pauses a port that joins one.",
			Tests: []string{"control/mirror.TestVRFs", "control/mirror.TestPortIsClosedUntilItsTableIsRead", "dataplane/cpu.TestPacketsAreLookedUpInTheVRFOfTheirPort", "dataplane/gpu.TestKernelCodeAgreesOnVRFs",
				"dataplane/gpu.TestKernelCodeAgreesOnLogicalPorts", "control/mirror.TestPortInVRFIsPaused", "control/mirror.TestStartRefusesPortInVRF", "afxdp.TestPauseAndResume", "control/doctor.TestLinkChecks/in a VRF", "internal/e2e/stock.TestLogicalPortsEqualLinux"},
		},
		{
			Key: "route/filter", Source: "RFC 1812 5.3.9, peers", Status: Departs,
			Says:  "Packets can be filtered by addresses, protocol and ports",
			Does:  "A gateway's policies discard by 5-tuple, fragments included; there are no other filters. Netfilter does not see AF_XDP traffic: `doctor` and the router at its start name rules and drop policies for forwarded packets.",
			Tests: []string{"dataplane/esp.TestPoliciesDecideWhatPasses", "dataplane/gpu.TestGatewayCodeAgreesWithTheCPUEngine", "ipsec/gateway.TestFragmentsDoNotEscapePoliciesOfPorts", "control/netfilter.TestForwardingListsChainsOfForwardedPackets", "control/doctor.TestHostChecks/a firewall that forwarded packets do not pass", "internal/e2e.TestBypassedFirewallIsReported"},
		},
	}
}
