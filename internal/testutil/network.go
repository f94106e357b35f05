package testutil

import (
	"net/netip"

	"github.com/warproute/warproute/fib"
)

const (
	mac0, mac1, mac2 fib.MAC = 0x020000000001, 0x020000000011, 0x020000000021 // of the ports
	peer, peer2      fib.MAC = 0x0200000000aa, 0x0200000000bb
)

// Network is the forwarding tables of a small network: port 1 with a neighbor, port 2 with another
// and an MTU of 100, port 3 down; frames of port 0 may have partial checksums.
//
//	10.1/16, fd01::/64   by port 1           10.6.0.1, fd06::1     local
//	10.2/16, fd02::/64   by port 2           10.7/16, fd07::/64    blackhole
//	10.3/16, fd03::/64   by port 3           10.8/16, fd08::/64    unreachable
//	10.4/16, fd04::/64   unresolved          10.9/16, fd09::/64    prohibit
//	10.5/16, fd05::/64   by ports 1 and 2    10.10/16, fd0a::/64   no port
//
//	10.13/16, fd0d::/64  by ports 1 and 2, the route with an MTU of 120
type Network struct {
	*fib.FIB
	PartialChecksums []bool // by port
	Glean            uint32 // the adjacency that is unresolved
	Prefixes         []netip.Prefix
}

// NewNetwork returns the network.
func NewNetwork() *Network {
	n := &Network{FIB: fib.New(1), PartialChecksums: []bool{true, false, false, false}}
	n.SetPort(0, mac0, 1500)
	n.SetPort(1, mac1, 1500)
	n.SetPort(2, mac2, 100)
	n.SetPort(3, mac2, 0)
	a1, a2, a3 := n.adjacency(1, peer), n.adjacency(2, peer2), n.adjacency(3, peer2)
	n.Glean = n.adjacency(1, 0)
	one := fib.Path{Adjacency: a1, Weight: 1}
	two := fib.Path{Adjacency: a2, Weight: 1}
	n.Route(n.hop(fib.KindForward, one), "10.1.0.0/16", "fd01::/64")
	n.Route(n.hop(fib.KindForward, two), "10.2.0.0/16", "fd02::/64")
	n.Route(n.hop(fib.KindForward, fib.Path{Adjacency: a3, Weight: 1}), "10.3.0.0/16", "fd03::/64")
	n.Route(n.hop(fib.KindForward, fib.Path{Adjacency: n.Glean, Weight: 1}), "10.4.0.0/16", "fd04::/64")
	n.Route(n.hop(fib.KindForward, one, two), "10.5.0.0/16", "fd05::/64")
	bounded := n.hop(fib.KindForward, one, two)
	n.SetNextHopMTU(bounded, 120)
	n.Route(bounded, "10.13.0.0/16", "fd0d::/64")
	n.Route(n.hop(fib.KindLocal), "10.6.0.1/32", "fd06::1/128")
	n.Route(n.hop(fib.KindBlackhole), "10.7.0.0/16", "fd07::/64")
	n.Route(n.hop(fib.KindUnreachable), "10.8.0.0/16", "fd08::/64")
	n.Route(n.hop(fib.KindProhibit), "10.9.0.0/16", "fd09::/64")
	n.Route(n.hop(fib.KindNoPort), "10.10.0.0/16", "fd0a::/64")
	return n
}

func (n *Network) adjacency(port uint16, mac fib.MAC) uint32 {
	id, err := n.NewAdjacency(port)
	must(err)
	n.SetAdjacency(id, port, mac)
	return id
}

func (n *Network) hop(k fib.Kind, paths ...fib.Path) fib.NextHopID {
	id, err := n.NewNextHop(k, paths...)
	must(err)
	return id
}

// Route adds or replaces the routes for prefixes.
func (n *Network) Route(id fib.NextHopID, prefixes ...string) {
	for _, s := range prefixes {
		p, insert := netip.MustParsePrefix(s), n.IPv4.Insert
		if p.Addr().Is6() {
			insert = n.IPv6.Insert
		}
		must(insert(p, id))
		n.Prefixes = append(n.Prefixes, p)
	}
}
