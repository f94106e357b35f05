package conformance

import "github.com/warproute/warproute/batch"

func linkRules() []Rule {
	return []Rule{
		{
			Key: "link/headers", Source: "RFC 1812 5.3, RFC 2464", Status: Kept,
			Says: "A forwarded frame has the MAC addresses of the next hop and the port; everything else is unchanged",
			Does: "Rewritten in place; in the IP header only TTL or hop limit and the checksum change.",
			Cases: []Case{
				{Name: "IPv4", Frame: to4("10.1.0.9"), Verdict: forward(1)},
				{Name: "IPv6", Frame: to6("fd01::9"), Verdict: forward(1)},
				{Name: "back by the port it came from", Frame: to4("192.0.2.77"), Verdict: forward(0)},
			},
			Tests: []string{"dataplane/cpu.TestVerdictsAreIndependent", "internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "link/padding", Source: "RFC 1812 5.2.2, RFC 894", Status: Kept,
			Says: "Link padding behind the packet is not forwarded",
			Does: "Trimmed to the length of the packet.",
			Cases: []Case{
				{Name: "IPv4", Frame: padded(sized4("10.1.0.9", 30), 16), Verdict: forward(1)},
				{Name: "IPv6", Frame: padded(sized6("fd01::9", 50), 2), Verdict: forward(1)},
				{Name: "IPv4, more than a minimum frame", Frame: padded(to4("10.1.0.9"), 100), Verdict: forward(1)},
			},
			Tests: []string{"packet/icmp.TestPaddingIsNotQuoted", "packet/fragment.TestPaddingIsNotPayload"},
		},
		{
			Key: "link/short", Source: "RFC 1812 5.2.2 (1)", Status: Kept,
			Says: "A frame shorter than its headers is dropped",
			Does: "Dropped silently.",
			Cases: all(drop(batch.TooShort), nil,
				Case{Name: "no frame", Frame: nil},
				Case{Name: "Ethernet header cut", Frame: to4("10.1.0.9")[:13]},
				Case{Name: "Ethernet header alone", Frame: to4("10.1.0.9")[:14]},
				Case{Name: "IPv4 header cut", Frame: to4("10.1.0.9")[:33]},
				Case{Name: "IPv6 header cut", Frame: to6("fd01::9")[:53]},
			),
		},
		{
			Key: "link/type", Source: "RFC 1122 2.3.3", Status: KeptByLinux,
			Says: "A router handles other frame types than IP: ARP, LLDP, 802.3 lengths",
			Does: "Punted to Linux, which answers ARP. An engine would drop them.",
			Cases: all(drop(batch.EtherType), nil,
				Case{Name: "ARP", Frame: etherType(to4("10.1.0.9"), 0x0806)},
				Case{Name: "LLDP", Frame: etherType(to4("10.1.0.9"), 0x88cc)},
				Case{Name: "a length", Frame: etherType(to4("10.1.0.9"), 46)},
			),
			Tests: []string{"afxdp.TestSteer/ARP request", "afxdp.TestSteer/LLDP", "afxdp.TestSteer/802.3 length instead of a type"},
		},
		{
			Key: "link/other-station", Source: "RFC 1812 2.2.1", Status: Kept,
			Says:  "A promiscuous port does not forward frames to other MAC addresses",
			Does:  "Punted to Linux, which drops them.",
			Tests: []string{"afxdp.TestSteer/IPv4 to another MAC", "afxdp.TestSteer/IPv6 to another MAC", "afxdp.TestSteer/MAC that differs in its first byte"},
		},
		{
			Key: "link/broadcast", Source: "RFC 1812 5.3.4", Status: Kept,
			Says:  "A link broadcast or multicast is neither forwarded as unicast nor answered by an ICMP error",
			Does:  "Punted to Linux, which drops it.",
			Tests: []string{"afxdp.TestSteer/IPv4 to the broadcast MAC", "afxdp.TestSteer/IPv4 to a multicast MAC", "afxdp.TestSteer/IPv6 to a multicast MAC", "internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "link/vlan", Source: "IEEE 802.1Q, peers", Status: Kept,
			Says:  "Tagged frames, priority tags (VLAN 0) and QinQ belong to their VLANs",
			Does:  "Linux's VLAN interfaces of ports are ports, with up to two tags; the router sends priority 0. Frames of other VLANs, and frames with a priority tag on ports without VLANs, are punted to Linux. A tag that the NIC has stripped is read from XDP metadata, if the driver reports it; a stripped priority tag on a port without VLANs is ignored. Otherwise it is invisible, which is reported (`ethtool -K IFACE rxvlan off` keeps it).",
			Tests: []string{"dataplane.TestVLANTagsAreRemovedAndAdded", "dataplane.TestSlowPathOfVLANs", "afxdp.TestSteerDecidesOnVLANsAsOnUntagged", "afxdp.TestSteerPassesUnknownVLANs", "afxdp.TestStrippedTagsAreAsTagsInFrames", "afxdp.TestStrippedTagsWithoutVLANs", "internal/e2e/stock.TestStrippedTagsEqualLinux", "internal/e2e/stock.TestVLANsOfPorts", "internal/e2e/stock.TestLogicalPortsEqualLinux", "afxdp.TestSteer/802.1Q tag", "afxdp.TestSteer/802.1ad tag", "internal/e2e.TestForwardingEqualsLinux", "internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "link/bond", Source: "IEEE 802.1AX 5.2.4, peers", Status: Kept,
			Says:  "Packets of one flow leave by one active member of a bond",
			Does:  "By the router's own hash of addresses, protocol, ports and SPI, among the members that Linux considers active; `xmit_hash_policy` is not followed.",
			Tests: []string{"dataplane.TestBondSpreadsFlows", "dataplane.TestBondSpreadsSAs", "dataplane.TestBondReceives", "control/mirror.TestBalancedBond", "internal/e2e/stock.TestBondsAsPorts", "internal/e2e/stock.TestLogicalPortsEqualLinux"},
		},
		{
			Key: "link/macvlan", Source: "RFC 9568, peers", Status: Kept,
			Says:  "An interface may have further MAC addresses, as virtual routers need them",
			Does:  "The MAC addresses of macvlan interfaces on a port are the port's. Routes over a macvlan lead over the port, whose own address is the source, also that of ICMP errors. (Linux sends with the MAC address of the macvlan, and ICMPv6 errors about frames to a macvlan in a VRF with its link-local address.)",
			Tests: []string{"control/mirror.TestMacvlanIsMACOfItsPort", "afxdp.TestSteerTakesFurtherMACs", "internal/e2e/stock.TestBondsThatChange", "internal/e2e/stock.TestLogicalPortsEqualLinux"},
		},
		{
			Key: "link/unfinished-checksums", Source: "peers", Status: Kept,
			Says: "L4 checksums that a veth or virtio sender left to its NIC are completed; all others are unchanged, wrong ones too",
			Does: "On ports of such drivers (`checksum: auto`), where the field is the sum of the pseudo-header.",
			Cases: []Case{
				{Name: "IPv4, on a port that needs it", Frame: unfinished(to4("10.1.0.9")), Verdict: forward(1), Sent: [][]byte{rewritten(to4("10.1.0.9"), 1)}},
				{Name: "IPv6, on a port that needs it", Frame: unfinished(to6("fd01::9")), Verdict: forward(1), Sent: [][]byte{rewritten(to6("fd01::9"), 1)}},
				{Name: "IPv4, on another", Frame: unfinished(to4("10.1.0.9")), Port: 1, Verdict: forward(1)},
				{Name: "IPv6, on another", Frame: unfinished(to6("fd01::9")), Port: 1, Verdict: forward(1)},
				{Name: "a wrong one", Frame: edit(to4("10.1.0.9"), 26, 0xba, 0xad), Verdict: forward(1)},
				{Name: "none in UDP over IPv4", Frame: edit(to4("10.1.0.9"), 26, 0, 0), Verdict: forward(1)},
			},
			Tests: []string{"packet.TestUnfinishedL4ChecksumsAreCompleted", "packet.TestCompletedUDPChecksumIsNeverZero", "packet.TestCompleteChecksumsStay", "packet.TestInnerChecksumsAreCompleted", "internal/e2e.TestIperf"},
		},
		{
			Key: "link/order", Source: "RFC 1812 2.2.1, peers", Status: Kept,
			Says:  "Packets of one flow leave in order of arrival",
			Does:  "All packets with the same ingress and egress queue do. Only packets that waited for a neighbor can be overtaken.",
			Tests: []string{"dataplane.TestPacketsAreNotReordered", "dataplane.TestChunksInFlightAreNotReordered", "dataplane.TestPendingPacketsStayInOrder"},
		},
	}
}
