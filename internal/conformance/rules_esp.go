package conformance

func espRules() []Rule {
	return []Rule{
		{
			Key: "esp/mtu", Source: "RFC 4301 8.2, RFC 1191, RFC 8201, peers", Status: Kept,
			Says:  "The inner source learns the tunnel's MTU before anything is encrypted",
			Does:  "ICMP 3/4 and ICMPv6 2/0 with the port's MTU minus the ESP overhead: outer headers, UDP, IV, padding and ICV of the suite.",
			Tests: []string{"dataplane/esp.TestPacketsLargerThanTheTunnelAreDropped", "dataplane/esp.TestPathTooNarrowForAnyPacket", "internal/e2e.TestTunnelsReportTheirInnerMTU"},
		},
		{
			Key: "esp/path-mtu", Source: "RFC 4301 8.2, RFC 1191, RFC 8201", Status: Kept,
			Says:  "A gateway learns the path MTU of a tunnel from ICMP errors that quote its packets, and forgets it after a while",
			Does:  "For all SAs of the path, for 10 minutes, from errors that quote addresses, SPI, UDP ports, DF, identification and a sequence number of the last two seconds; at least 576 bytes, 1280 for IPv6. `ipsec.path_mtu: off` ignores such errors.",
			Tests: []string{"ipsec/gateway.TestImplausiblePathMTUErrorsAreIgnored", "ipsec/gateway.TestPathMTUsExpire", "ipsec/gateway.TestOldPacketsDoNotNarrowPaths", "dataplane/esp.TestPathMTUBelowThePortMTU", "control/pathmtu.TestOnlyErrorsQuotingESPAreParsed", "internal/e2e.TestGatewayLearnsPathMTU"},
		},
		{
			Key: "esp/least-mtu", Source: "RFC 8200 5, RFC 2473 7.1, RFC 4213 3.2.2", Status: Kept,
			Says:  "IPv6 packets up to 1280 bytes pass a tunnel with any path MTU",
			Does:  "Their ESP is fragmented, in IPv4 without DF.",
			Tests: []string{"dataplane/esp.TestMinimumMTUPacketsAreFragmentedAsESP", "internal/e2e.TestGatewayLearnsPathMTU"},
		},
		{
			Key: "esp/fragment-before", Source: "RFC 4301 7, peers", Status: Kept,
			Says:  "A packet that may be fragmented is, before or after encryption as configured",
			Does:  "`fragment: before` or `after`; transport mode fragments after encryption only.",
			Tests: []string{"dataplane/esp.TestPacketsLargerThanTheTunnelAreDropped", "dataplane/esp.TestFragmentAfterESP", "dataplane/esp.TestTransportModeFragmentsAfterESP"},
		},
		{
			Key: "esp/reassembly", Source: "RFC 4301 7, App. D, RFC 4303 3.4.1", Status: Kept,
			Says:  "ESP fragments are reassembled before decryption, up to the longest datagram; a single fragment is not decrypted",
			Does:  "For the router, and in transport mode for hosts behind it. Memory is bounded, overlaps are refused, and incomplete datagrams are dropped after 2 s as `fragments_missing`. Fragments of ESP in UDP to the router must not overtake the first one, by which XDP recognizes them. Inner packets up to 65,521 bytes are fragmented to the port's MTU, or their sources notified.",
			Tests: []string{"dataplane.TestFragmentedESPIsDecrypted", "dataplane.TestSourcesLearnTheMTUBehindATunnel", "dataplane.TestReassembledPacketsReachTheHost", "internal/e2e.TestLargeDatagramsInteroperateWithLinux", "dataplane.TestESPFragmentsAreReassembled", "dataplane.TestIncompleteFragmentsExpire", "afxdp.TestFragmentsFollowTheFirst", "internal/e2e.TestFragmentedESPInUDPIsReassembled", "ipsec.TestFragmentsAreNotDecapsulated", "packet/fragment.TestReassemblerAgreesWithTheModel", "packet/fragment.TestOverlapEndsADatagram", "packet/fragment.TestFloodsAreBounded"},
		},
		{
			Key: "esp/transport-fragments", Source: "RFC 4301 7, RFC 4303 3.3.4", Status: Kept,
			Says:  "Transport mode encrypts whole packets: fragments from a host are reassembled, encrypted, and fragmented as ESP",
			Does:  "In IPv6, too, as the source would.",
			Tests: []string{"dataplane.TestFragmentedPacketsAreEncrypted", "dataplane/esp.TestReassembledPacketsOfAllLengths", "internal/e2e.TestLargeDatagramsInteroperateWithLinux"},
		},
		{
			Key: "esp/mss", Source: "RFC 4459 3.2, RFC 6691, peers", Status: Kept,
			Says:  "The MSS of TCP connections can be clamped to the tunnel's MTU",
			Does:  "`mss_clamp: true`.",
			Tests: []string{"packet.TestClampMSS", "dataplane/esp.TestMSSIsClamped"},
		},
		{
			Key: "esp/outer-header", Source: "RFC 4301 5.1.2, RFC 6040 4.1", Status: Kept,
			Says:  "DF, DSCP, ECN, TTL and flow label of the outer header derive from the inner packet as the SA specifies",
			Does:  "Like Linux.",
			Tests: []string{"ipsec.TestOuterIPv4Header", "ipsec.TestOuterIPv6Header"},
		},
		{
			Key: "esp/congestion", Source: "RFC 6040 4.2, RFC 3168 9.1", Status: Kept,
			Says:  "Congestion in the outer header is copied to the inner packet, or the packet is dropped",
			Does:  "By the table of RFC 6040; `xfrm_in_ecn_error` if the inner packet is not ECN-capable.",
			Tests: []string{"ipsec.TestECNPassesThroughTunnels", "packet/fragment.TestReassemblyKeepsCongestionMarks"},
		},
		{
			Key: "esp/padding", Source: "RFC 4303 2.4, peers", Status: Kept,
			Says:  "Link padding is not encrypted, and unfinished checksums are completed before encryption",
			Does:  "Trimmed and completed before encryption, also inside tunnelled packets.",
			Tests: []string{"dataplane/esp.TestTwoGatewaysFormATunnel", "packet.TestInnerChecksumsAreCompleted", "internal/e2e.TestESPInteroperatesWithLinux"},
		},
		{
			Key: "esp/errors", Source: "RFC 4301 6, 8.2", Status: Kept,
			Says:  "Errors about protected traffic are protected like it",
			Does:  "An error that no policy selects uses the policy of replies to the quoted packet. Out of a tunnel that always holds; into one, if the error is the router's own or arrives by the port towards the quoted destination. `ipsec.icmp: strict` leaves the router's own errors alone.",
			Tests: []string{"dataplane/esp.TestICMPErrorsLeaveByTheTunnelOfTheirQuote", "dataplane/esp.TestICMPErrorsArriveByTheTunnelOfTheirQuote", "dataplane/esp.TestStrictGatewayChecksEveryQuote"},
		},
		{
			Key: "esp/forged-errors", Source: "RFC 4301 6.1.1, 6.2, RFC 1812 5.2.7.2, RFC 6633", Status: Kept,
			Says:  "ICMP errors do not bypass the policies of a tunnel",
			Does:  "A quotation admits only an error to the quoted source, of ICMP type 3, 11 or 12 or ICMPv6 type 1 to 4, up to 576 bytes (IPv6: 1280). Others are dropped as `xfrm_in_no_pols` out of a tunnel, and as `xfrm_out_pol_block` into one. Plaintext errors about encrypted packets are dropped as `xfrm_in_tmpl_mismatch`.",
			Tests: []string{"dataplane/esp.TestICMPErrorsArriveByTheTunnelOfTheirQuote", "dataplane/esp.TestICMPErrorsLeaveByTheTunnelOfTheirQuote", "dataplane/esp.TestPlaintextICMPErrorsAboutProtectedPacketsAreDropped", "dataplane/esp.TestLargeICMPErrorsAreFragmentedAsESP", "dataplane/gpu.TestGatewayCodeAgreesWithTheCPUEngine"},
		},
		{
			Key: "esp/acquire", Source: "RFC 4301 4.4.1, RFC 2367 3.1.6", Status: Kept,
			Says:  "A packet that needs an SA that does not exist triggers the key daemon",
			Does:  "With `source: xfrm`, by Linux's ACQUIRE, at most once in 3 s per tunnel of a policy. The packet is dropped.",
			Tests: []string{"ipsec/gateway.TestMissingSAsAreReportedOnce"},
		},
		{
			Key: "esp/host", Source: "RFC 4301 4.4.1, peers", Status: Kept,
			Says:  "The gateway itself is reachable through tunnels, and its own packets are protected",
			Does:  "By a Linux interface (`ipsec.interface`) with routes. Without them, arriving packets are dropped, and Linux's own packets bypass the gateway.",
			Tests: []string{"dataplane.TestHostInterfaceDeliversAndReceives", "dataplane.TestHostLearnsPathMTU", "internal/e2e.TestGatewayIsReachableThroughTunnels"},
		},
		{
			Key: "esp/closed", Source: "RFC 4301 4.4.1, peers", Status: Kept,
			Says:  "Packets that a policy protects never leave in plaintext",
			Does:  "Dropped with Linux's name for the cause.",
			Tests: []string{"dataplane/esp.TestProtectedTrafficNeverLeavesInPlaintext", "internal/e2e.TestProtectedPacketsNeverPassInPlaintext", "ipsec/gateway.TestFragmentsDoNotEscapePoliciesOfPorts"},
		},
	}
}
