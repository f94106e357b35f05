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
			Key: "esp/path-mtu", Source: "RFC 4301 8.2.1, RFC 8201, peers", Status: Kept,
			Says:  "What routers between the gateways say of ESP that did not fit lowers the size that inner sources are told, if it is credible",
			Does:  "Of packets that an association has sent; no lower than a floor, and forgotten in time.",
			Tests: []string{"internal/e2e.TestPathMTUBehindThePort", "ipsec/gateway.TestWhatRoutersSayIsJudged", "ipsec/gateway.TestPathsAreNarrowForAWhile", "control/pathmtu.TestErrorsThatQuoteESP"},
		},
		{
			Key: "esp/fragment-before", Source: "RFC 4301 7, peers", Status: Kept,
			Says:  "A packet that may be cut is, before or after it is protected, as configured",
			Does:  "`fragment: before` or `after`; in transport mode after alone.",
			Tests: []string{"dataplane/cpu.TestPacketsThatDoNotFitTheTunnel", "dataplane/cpu.TestCuttingAfterProtecting", "dataplane/cpu.TestTransportModeDoesNotCutBefore"},
		},
		{
			Key: "esp/reassembly", Source: "RFC 4301 7, App. D, RFC 4303 3.4.1", Status: Kept,
			Says:  "Fragments of ESP are put together before they are decrypted; one alone is not decrypted",
			Does:  "The worker collects them, bounded, with overlaps refused.",
			Tests: []string{"dataplane.TestFragmentsOfESPAreCollected", "ipsec.TestFragmentsAreNotDecapsulated", "packet/fragment.TestReassemblerKeepsTheRules", "packet/fragment.TestOverlapEndsADatagram", "packet/fragment.TestFloodsAreBounded", "internal/e2e.TestESPInUDPIsPutTogether"},
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
			Does:  "An error takes the policy of the packet that it quotes.",
			Tests: []string{"dataplane/cpu.TestErrorsAreProtectedAsWhatTheyQuote"},
		},
		{
			Key: "esp/closed", Source: "RFC 4301 4.4.1, peers", Status: Kept,
			Says:  "What a policy protects never leaves in clear",
			Does:  "Dropped under Linux's name for the cause.",
			Tests: []string{"dataplane/cpu.TestNothingLeavesInClear", "internal/e2e.TestNothingPassesInClear", "ipsec/gateway.TestFragmentsDoNotEscapePoliciesOfPorts"},
		},
	}
}
