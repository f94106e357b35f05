package differential

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// Tunnels has wan as a GRE tunnel and nar as a VXLAN over a port, which the router reaches through Linux.
var Tunnels = Ports{
	Name: "GRE and VXLAN", Kinds: 2, Modules: []string{"ip_gre", "vxlan"}, configured: []string{"lan", "under"}, exits: true,
	build: func(c *Contender) {
		c.veth(lanSide, "lan", lanSide, lab.VethOptions{})
		n := c.veth(underlay, "under", wanSide, lab.VethOptions{MTU: 1600})
		require.NoError(c.t, c.Router.AddAddr("under", netip.MustParsePrefix("192.0.2.1/24")))
		require.NoError(c.t, c.Router.AddNeighbor("under", netip.AddrFrom4([4]byte(tunnel4[1])), hostMAC(underlay)))
		const ends = " local 192.0.2.1 remote 192.0.2.2 ttl 64 tos inherit"
		c.ip("link add wan type gre"+ends, "link set wan mtu 1476 up", "link add nar address "+routerMAC(narSide).String()+" type vxlan id 5 dstport 4789 nolearning"+ends, "link set nar up")
		c.sides[wanSide] = attachment{senders: []int{n}, wrap: wrapGRE, unwrap: unwrapGRE, pointToPoint: true}
		c.sides[narSide] = attachment{senders: []int{n}, wrap: wrapVXLAN, unwrap: unwrapVXLAN}
	},
	Differences: []Difference{{Name: "ICMP errors of the router do not leave through Linux", Rule: "route/elsewhere", is: func(c *contrast) bool {
		return len(c.ours) == 0 && len(c.linux) == 1 && c.linux[0].side != lanSide && strings.HasPrefix(kind(c.linux[0]), "ICMP")
	}}, {Name: "Linux's path MTU errors about packets that leave through it quote completed checksums", Rule: "route/elsewhere", Rare: true, is: func(c *contrast) bool {
		return c.unfinished() && c.ours.are("ICMP 3/4", "ICMPv6 2/0") && slices.Equal(c.linux.without(c.quotedChecksum), c.ours.without(c.quotedChecksum))
	}}, {Name: "Linux's ICMPv6 errors about packets that leave through it have the address of the egress port", Rule: "route/elsewhere", Rare: true, is: func(c *contrast) bool {
		return c.v6() && c.ours.are("ICMPv6 2/0") && slices.Equal(c.linux.without(errorSource6), c.ours.without(errorSource6))
	}}},
}
