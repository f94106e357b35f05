package conformance

import "github.com/warproute/warproute/batch"

func hostRules() []Rule {
	return []Rule{
		{
			Key: "host/own-addresses", Source: "RFC 1812 5.2.3, peers", Status: KeptByLinux,
			Says:  "Packets to the router itself are delivered, with any TTL and from any port: BGP, SSH, IKE, echo",
			Does:  "Punted to Linux. A packet that arrives before its address is mirrored is dropped.",
			Cases: all(drop(batch.LocalDelivery), nil, Case{Name: "IPv4", Frame: to4("10.6.0.1")}, Case{Name: "IPv6", Frame: to6("fd06::1")}),
			Tests: []string{"afxdp.TestSteer/our IPv4 address", "afxdp.TestSteer/our IPv6 address", "afxdp.TestSteerFollowsChanges", "control/mirror.TestLocalAddresses", "internal/e2e.TestAddressChangesTakeEffect", "internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "host/echo", Source: "RFC 1812 4.3.3.6, RFC 4443 4.2", Status: KeptByLinux,
			Says:  "A router answers echo requests to all its addresses, timestamps and other queries",
			Does:  "Linux answers.",
			Tests: []string{"afxdp.TestSteer/our IPv4 address", "afxdp.TestSteer/our IPv6 address", "internal/e2e.TestIperf", "internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "host/reassembly", Source: "RFC 1812 4.2.2.8, RFC 8200 4.5", Status: KeptByLinux,
			Says:  "Fragments to the router are reassembled",
			Does:  "By Linux; those of ESP for a gateway by the worker.",
			Tests: []string{"afxdp.TestSteer/our IPv4 address", "dataplane.TestESPFragmentsAreReassembled"},
		},
		{
			Key: "host/arp", Source: "RFC 826, RFC 1812 3.3.2", Status: KeptByLinux,
			Says:  "A router answers ARP for its addresses",
			Does:  "Linux answers.",
			Tests: []string{"afxdp.TestSteer/ARP request", "afxdp.TestSteer/ARP reply to us", "internal/e2e.TestForwardingEqualsLinux"},
		},
		{
			Key: "host/neighbour-discovery", Source: "RFC 4861 4, 7.1", Status: KeptByLinux,
			Says: "Neighbor discovery is link-local: only messages with a hop limit of 255 are processed",
			Does: "ICMPv6 types 133 to 137 to any destination are punted to Linux; none is forwarded.",
			Tests: []string{"afxdp.TestSteer/router solicitation", "afxdp.TestSteer/neighbour advertisement", "afxdp.TestSteer/redirect",
				"afxdp.TestSteer/ICMPv6 type 132, no discovery", "afxdp.TestSteer/ICMPv6 type 138, no discovery", "internal/e2e.TestForwardingEqualsLinux", "internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "host/subnet-router-anycast", Source: "RFC 4291 2.6.1", Status: KeptByLinux,
			Says:  "A router receives packets to the subnet-router anycast addresses of its links",
			Does:  "Punted to Linux, which has these addresses while it forwards IPv6 itself.",
			Tests: []string{"internal/e2e.TestLinuxForwardsPuntedPackets"},
		},
		{
			Key: "host/closed", Source: "peers", Status: Kept,
			Says:  "No forwarded traffic is punted to Linux, which might forward it past the policies",
			Does:  "A queue without a socket drops its frames.",
			Tests: []string{"afxdp.TestSteer", "afxdp.TestQueueWithoutSocket"},
		},
	}
}
