package gateway_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// A policy protects the traffic to a branch. Without an SA its packets are dropped.
func Example() {
	var g gateway.Gateway
	branch := g.Tunnel("branch")
	err := g.SetRules([]gateway.Rule{{Name: "to branch", Direction: ipsec.Out, Policy: policy.Policy{
		Src: netip.MustParsePrefix("192.0.2.0/24"), Dst: netip.MustParsePrefix("198.51.100.0/24"),
		Action: policy.Protect, Target: branch,
	}}})
	if err != nil {
		panic(err)
	}
	flow := gateway.FlowIPv4(testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53)[packet.EthernetLen:])
	_, failed := g.LookupOutbound(&flow)
	fmt.Println("without an SA:", failed)

	sa, err := ipsec.NewSA(ipsec.Config{
		SPI: 0x1000, Direction: ipsec.Out, Tunnel: branch,
		Src: netip.MustParseAddr("203.0.113.1"), Dst: netip.MustParseAddr("203.0.113.2"),
		Suite: "aes128gcm16", Key: make([]byte, 20),
	}, 1)
	if err != nil {
		panic(err)
	}
	if err := g.Add(sa); err != nil {
		panic(err)
	}
	by, failed := g.LookupOutbound(&flow)
	fmt.Printf("by SPI %#x: %v\n", by.Config().SPI, failed)
	// Output:
	// without an SA: XfrmOutNoStates
	// by SPI 0x1000: OK
}
