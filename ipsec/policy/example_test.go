package policy_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// The first policy that matches decides: DNS leaves in plaintext, all other traffic by tunnel 7.
func Example() {
	site, branch := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
	table, err := policy.Build([]policy.Policy{
		{Src: site, Dst: branch, Protocol: uint8(packet.UDP), DstPorts: policy.Port(53), Action: policy.Bypass},
		{Src: site, Dst: branch, Action: policy.Protect, Target: 7},
	})
	if err != nil {
		panic(err)
	}
	const client, server = 0xc0000201, 0xc6336407 // 192.0.2.1 and 198.51.100.7
	for _, port := range []uint32{53, 443} {
		flow := policy.IPv4Flow(client, server, uint8(packet.UDP), 12345, port)
		number, verdict := table.Lookup(&flow)
		fmt.Println("port", port, "policy", number, verdict.Action(), verdict.Target())
	}
	// Output:
	// port 53 policy 0 bypass 0
	// port 443 policy 1 protect 7
}
