package conformance

import "github.com/warproute/warproute/batch"

func hostRules() []Rule {
	return []Rule{
		{
			Key: "host/own-addresses", Source: "RFC 1812 5.2.3, peers", Status: Linuxs,
			Says:  "What is for the router itself is delivered to it, whatever its TTL and by whichever port it comes: BGP, SSH, IKE, echo",
			Does:  "Linux has it. One that arrived before its address was known here is dropped.",
			Cases: all(drop(batch.LocalDelivery), nil, Case{Name: "IPv4", Frame: to4("10.6.0.1")}, Case{Name: "IPv6", Frame: to6("fd06::1")}),
			Tests: []string{"afxdp.TestSteer/our IPv4 address", "afxdp.TestSteer/our IPv6 address", "afxdp.TestSteerFollowsChanges", "control/mirror.TestLocalAddresses", "internal/e2e.TestAddressChangesTakeEffect", "internal/e2e.TestLinuxDoesTheSame"},
		},
		{
			Key: "host/echo", Source: "RFC 1812 4.3.3.6, RFC 4443 4.2", Status: Linuxs,
			Says:  "A router answers echo requests to all its addresses, timestamps and other queries",
			Does:  "Linux answers.",
			Tests: []string{"afxdp.TestSteer/our IPv4 address", "afxdp.TestSteer/our IPv6 address", "internal/e2e.TestIperf", "internal/e2e.TestLinuxDoesTheSame"},
		},
		{
			Key: "host/reassembly", Source: "RFC 1812 4.2.2.8, RFC 8200 4.5", Status: Linuxs,
			Says:  "Fragments of what is for the router are put together",
			Does:  "By Linux; those of ESP for a gateway by the worker.",
			Tests: []string{"afxdp.TestSteer/our IPv4 address", "dataplane.TestFragmentsOfESPAreCollected"},
		},
		{
			Key: "host/arp", Source: "RFC 826, RFC 1812 3.3.2", Status: Linuxs,
			Says:  "A router answers ARP for its addresses",
			Does:  "Linux answers.",
			Tests: []string{"afxdp.TestSteer/ARP request", "afxdp.TestSteer/ARP reply to us", "internal/e2e.TestLinuxDoesTheSame"},
		},
		{
			Key: "host/neighbour-discovery", Source: "RFC 4861 4, 7.1", Status: Linuxs,
			Says: "Neighbour discovery is for the link: it is worked on with a hop limit of 255 alone",
			Does: "Linux has ICMPv6 133 to 137, to whomever; none is forwarded.",
			Tests: []string{"afxdp.TestSteer/router solicitation", "afxdp.TestSteer/neighbour advertisement", "afxdp.TestSteer/redirect",
				"afxdp.TestSteer/ICMPv6 type 132, no discovery", "afxdp.TestSteer/ICMPv6 type 138, no discovery", "internal/e2e.TestLinuxDoesTheSame", "internal/e2e.TestLinuxForwardsWhatIsLeftToIt"},
		},
		{
			Key: "host/subnet-router-anycast", Source: "RFC 4291 2.6.1", Status: Linuxs,
			Says:  "A router takes packets to the subnet-router anycast addresses of its links",
			Does:  "Linux has them while it forwards IPv6 itself, and has the addresses then.",
			Tests: []string{"internal/e2e.TestLinuxForwardsWhatIsLeftToIt"},
		},
		{
			Key: "host/closed", Source: "peers", Status: Kept,
			Says:  "Nothing of the router's goes to Linux, which might forward it past the policies",
			Does:  "A queue without a socket drops its frames.",
			Tests: []string{"afxdp.TestSteer", "afxdp.TestQueueWithoutSocket"},
		},
	}
}
