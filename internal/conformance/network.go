package conformance

import (
	"net/netip"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
)

// Ports is the number of ports of the rules' network.
const Ports = 5

// The source addresses of the router's errors about packets from port 0, and of the rules' packets.
var (
	Router4, Router6 = netip.MustParseAddr("192.0.2.254"), netip.MustParseAddr("2001:db8::fe")
	client4, client6 = "192.0.2.1", "2001:db8::1"
)

// link returns the Ethernet header of frames from a port.
type link struct{ peer, mac fib.MAC }

var links = [Ports]link{
	{0x0200000000dd, 0x020000000001},
	{0x0200000000aa, 0x020000000011},
	{0x0200000000bb, 0x020000000021},
	{0x0200000000bb, 0x020000000021},
	{0x0200000000cc, 0x020000000041},
}

// NewNetwork returns the forwarding tables of the rules: testutil's network and
//
//	192.0.2/24, 2001:db8::/64   by port 0, the ingress port
//	10.11/16, fd0b::/64         by port 4, with an MTU of 1400
//	10.14/16, fd0e::/64         by port 1, the route with an MTU of 1300
//	10.15/16, fd0f::/64         by port 4, the route with an MTU of 1500
//	10.12/16, fd0c::/64         by port 4, except for the longer blackhole 10.12.9/24, fd0c::9:0/112
func NewNetwork() (*testutil.Network, error) {
	n := testutil.NewNetwork()
	n.SetPort(4, links[4].mac, 1400)
	n.PartialChecksums = append(n.PartialChecksums, false)
	for _, r := range []struct {
		port, mtu uint16
		prefixes  []string
	}{
		{0, 0, []string{"192.0.2.0/24", "2001:db8::/64"}},
		{4, 0, []string{"10.11.0.0/16", "fd0b::/64", "10.12.0.0/16", "fd0c::/64"}},
		{1, ofRoute, []string{"10.14.0.0/16", "fd0e::/64"}},
		{4, 1500, []string{"10.15.0.0/16", "fd0f::/64"}},
	} {
		adjacency, err := n.NewAdjacency(r.port)
		if err != nil {
			return nil, err
		}
		n.SetAdjacency(adjacency, r.port, links[r.port].peer)
		id, err := n.NewNextHop(fib.KindForward, fib.Path{Adjacency: adjacency, Weight: 1})
		if err != nil {
			return nil, err
		}
		n.SetNextHopMTU(id, r.mtu)
		n.Route(id, r.prefixes...)
	}
	id, err := n.NewNextHop(fib.KindBlackhole)
	if err != nil {
		return nil, err
	}
	n.Route(id, "10.12.9.0/24", "fd0c::9:0/112")
	return n, nil
}
