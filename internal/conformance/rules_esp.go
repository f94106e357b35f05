package conformance

func espRules() []Rule {
	return []Rule{
		{
			Key: "esp/mtu", Source: "RFC 4301 8.2, RFC 1191, RFC 8201, peers", Status: Kept,
			Says:  "The inner source is told which size fits through the tunnel, before anything is encrypted",
			Does:  "ICMP 3/4 and ICMPv6 2/0 with the port's MTU less what ESP adds: outer headers, UDP, IV, padding and ICV of the suite.",
			Tests: []string{"dataplane/cpu.TestPacketsThatDoNotFitTheTunnel", "dataplane/cpu.TestAWayThatNothingFits", "internal/e2e.TestPathMTUOfATunnel"},
		},
		{
			Key: "esp/path-mtu", Source: "RFC 4301 8.2, RFC 1191, RFC 8201", Status: Kept,
			Says:  "What routers on a tunnel's path say of its size is learned where they quote what was sent, and forgotten after a while",
			Does:  "Learned for all associations of the path, for 10 minutes, from errors that quote addresses, SPI, UDP ports, DF, identification and a sequence number of the last second or two; not below 576 bytes, and 1280 of IPv6. `ipsec.path_mtu: off` ignores them.",
			Tests: []string{"ipsec/gateway.TestWhatRoutersSayIsJudged", "ipsec/gateway.TestPathsAreNarrowForAWhile", "ipsec/gateway.TestOldPacketsDoNotNarrowPaths", "dataplane/cpu.TestPathsNarrowerThanThePort", "control/pathmtu.TestErrorsThatQuoteESP", "internal/e2e.TestPathMTUBehindThePort"},
		},
		{
			Key: "esp/least-mtu", Source: "RFC 8200 5, RFC 2473 7.1, RFC 4213 3.2.2", Status: Kept,
			Says:  "IPv6 packets of up to 1280 bytes pass a tunnel whatever its path carries",
			Does:  "Their ESP is fragmented, in IPv4 without DF.",
			Tests: []string{"dataplane/cpu.TestWhatEveryWayMustCarryIsCutAsESP", "internal/e2e.TestPathMTUBehindThePort"},
		},
		{
			Key: "esp/fragment-before", Source: "RFC 4301 7, peers", Status: Kept,
			Says:  "A packet that may be cut is, before or after it is protected, as configured",
			Does:  "`fragment: before` or `after`; in transport mode after alone.",
			Tests: []string{"dataplane/cpu.TestPacketsThatDoNotFitTheTunnel", "dataplane/cpu.TestCuttingAfterProtecting", "dataplane/cpu.TestTransportModeDoesNotCutBefore"},
		},
		{
			Key: "esp/reassembly", Source: "RFC 4301 7, App. D, RFC 4303 3.4.1", Status: Kept,
			Says:  "Fragments of ESP are reassembled before they are decrypted, up to the longest datagrams; one alone is not decrypted",
			Does:  "For the router, and in transport mode for hosts behind it: bounded, with overlaps refused; what does not become whole in 2 s is dropped as `fragments_missing`. Of ESP in UDP to the router those that do not overtake the first, by which XDP knows the others. What was inside is fragmented to the port's MTU, or its source notified; up to 65,521 bytes.",
			Tests: []string{"dataplane.TestDatagramsArriveByESP", "dataplane.TestDatagramsThatMayNotBeCut", "dataplane.TestLargeDatagramsReachTheHost", "internal/e2e.TestLargeDatagramsWithLinux", "dataplane.TestFragmentsOfESPAreCollected", "dataplane.TestFragmentsThatStayAloneAreDropped", "afxdp.TestFragmentsFollowTheFirst", "internal/e2e.TestESPInUDPIsPutTogether", "ipsec.TestFragmentsAreNotDecapsulated", "packet/fragment.TestReassemblerKeepsTheRules", "packet/fragment.TestOverlapEndsADatagram", "packet/fragment.TestFloodsAreBounded"},
		},
		{
			Key: "esp/transport-fragments", Source: "RFC 4301 7, RFC 4303 3.3.4", Status: Kept,
			Says:  "Transport mode protects whole packets: what a host sends in fragments is reassembled, protected, and fragmented as ESP",
			Does:  "In IPv6, too, as its source would.",
			Tests: []string{"dataplane.TestDatagramsLeaveByESP", "dataplane/cpu.TestDatagramsOfAllLengths", "internal/e2e.TestLargeDatagramsWithLinux"},
		},
		{
			Key: "esp/mss", Source: "RFC 4459 3.2, RFC 6691, peers", Status: Kept,
			Says:  "The MSS that TCP connections announce can be lowered to what fits through the tunnel",
			Does:  "`mss_clamp: true`.",
			Tests: []string{"packet.TestClampMSS", "dataplane/cpu.TestSegmentSizesAreClamped"},
		},
		{
			Key: "esp/outer-header", Source: "RFC 4301 5.1.2, RFC 6040 4.1", Status: Kept,
			Says:  "DF, DSCP, ECN, TTL and flow label of the outer header come from the inner packet as the association says",
			Does:  "As Linux does it.",
			Tests: []string{"ipsec.TestOuterIPv4Header", "ipsec.TestOuterIPv6Header"},
		},
		{
			Key: "esp/congestion", Source: "RFC 6040 4.2, RFC 3168 9.1", Status: Kept,
			Says:  "Congestion that the outer header reports is told to the inner packet, or the packet is dropped",
			Does:  "As the table of RFC 6040; `xfrm_in_ecn_error` where the inner packet cannot be told.",
			Tests: []string{"ipsec.TestECNPassesThroughTunnels", "packet/fragment.TestCongestionIsNotLost"},
		},
		{
			Key: "esp/padding", Source: "RFC 4303 2.4, peers", Status: Kept,
			Says:  "A link's padding does not leak into what is protected, and unfinished checksums are completed before",
			Does:  "Trimmed and completed before encryption, of tunnelled packets inside, too.",
			Tests: []string{"dataplane/cpu.TestTwoGatewaysAreATunnel", "packet.TestInnerChecksumsAreCompleted", "internal/e2e.TestESPWithLinux"},
		},
		{
			Key: "esp/errors", Source: "RFC 4301 6, 8.2", Status: Kept,
			Says:  "Errors about protected traffic are protected as it is",
			Does:  "An error that no policy selects takes the policy of answers to the packet that it quotes: out of a tunnel, into the one that the packet came by if the error arrives by the port that leads to the packet's destination, or is the router's own. `ipsec.icmp: strict` leaves the router's own alone.",
			Tests: []string{"dataplane/cpu.TestErrorsAreProtectedAsWhatTheyQuote", "dataplane/cpu.TestErrorsArriveAsWhatTheyQuote", "dataplane/cpu.TestStrictGatewaysReadEveryQuotation"},
		},
		{
			Key: "esp/forged-errors", Source: "RFC 4301 6.1.1, 6.2, RFC 1812 5.2.7.2, RFC 6633", Status: Kept,
			Says:  "ICMP errors do not evade the policies of a tunnel",
			Does:  "By what it quotes passes only an error to the quoted source, of ICMP type 3, 11 or 12 or ICMPv6 type 1 to 4, of up to 576 bytes (IPv6: 1280). Out of a tunnel others are dropped as `xfrm_in_no_pols`; into one, and a stranger's from another port, as `xfrm_out_pol_block`; errors in clear about packets that left protected as `xfrm_in_tmpl_mismatch`.",
			Tests: []string{"dataplane/cpu.TestErrorsArriveAsWhatTheyQuote", "dataplane/cpu.TestErrorsAreProtectedAsWhatTheyQuote", "dataplane/cpu.TestErrorsInClearAreNotAboutProtectedPackets", "dataplane/cpu.TestLargeErrorsAreProtectedWhole", "dataplane/gpu.TestGatewayCodeAgreesWithTheCPUEngine"},
		},
		{
			Key: "esp/acquire", Source: "RFC 4301 4.4.1, RFC 2367 3.1.6", Status: Kept,
			Says:  "A packet that is to be protected and finds no association has the key daemon make one",
			Does:  "With `source: xfrm`, by Linux's ACQUIRE, at most once in 3 s a policy's bundle. The packet is dropped.",
			Tests: []string{"ipsec/gateway.TestMissingAssociationsAreToldOnce"},
		},
		{
			Key: "esp/host", Source: "RFC 4301 4.4.1, peers", Status: Kept,
			Says:  "The gateway itself is reached through tunnels, and its own packets are protected",
			Does:  "By an interface of Linux's (`ipsec.interface`), if Linux has routes by it; else what arrives is dropped, and what Linux sends passes the gateway by.",
			Tests: []string{"dataplane.TestPacketsOfTheHost", "dataplane.TestTheHostIsToldOfSizes", "internal/e2e.TestTheGatewayItselfIsReachedThroughTunnels"},
		},
		{
			Key: "esp/closed", Source: "RFC 4301 4.4.1, peers", Status: Kept,
			Says:  "What a policy protects never leaves in clear",
			Does:  "Dropped under Linux's name for the cause.",
			Tests: []string{"dataplane/cpu.TestNothingLeavesInClear", "internal/e2e.TestNothingPassesInClear", "ipsec/gateway.TestFragmentsDoNotEscapePoliciesOfPorts"},
		},
	}
}
