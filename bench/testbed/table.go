package testbed

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/internal/routes"
)

// RouterMAC is that of the egress port.
const RouterMAC = fib.MAC(0x020000000001)

const peers = 64 // neighbours that routes point to

// PeerMAC is that of a neighbour.
func PeerMAC(i int) fib.MAC { return fib.MAC(0x020000010000 + uint64(i)) }

// Route is one prefix of a table, and the neighbour that it points to.
type Route struct {
	Prefix netip.Prefix
	Peer   int
}

// Routes returns the routes of a table: random, or one of routes.Names. n is how many;
// 0 is as many as a table of internal/routes has by itself.
func Routes(rnd *rand.Rand, table string, ipv6 bool, n int, seed uint64) ([]Route, error) {
	if table == "random" {
		return randomRoutes(rnd, ipv6, n), nil
	}
	f := routes.IPv4
	if ipv6 {
		f = routes.IPv6
	}
	set, err := routes.New(table, f, n, seed)
	if err != nil {
		return nil, err
	}
	list := make([]Route, 0, set.Len())
	for _, p := range set.Prefixes {
		if a := p.Addr(); a.Is4() || p.Bits() <= 64 { // frames go to addresses whose second half is random
			list = append(list, Route{p, rnd.IntN(peers)})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("table %s of %d %s routes has none of up to 64 bits, which frames go to: take another table", table, set.Len(), f)
	}
	return list, nil
}

// Destination returns a random address that a random route covers, and that is none of
// those which no router forwards to.
func Destination(rnd *rand.Rand, routes []Route) netip.Addr {
	for {
		if a := Within(rnd, routes[rnd.IntN(len(routes))].Prefix); !a.IsLinkLocalUnicast() {
			return a
		}
	}
}

// Within returns a random address of a prefix.
func Within(rnd *rand.Rand, p netip.Prefix) netip.Addr {
	if a := p.Addr(); a.Is4() {
		b := a.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])|rnd.Uint32()>>p.Bits())
		return netip.AddrFrom4(b)
	}
	b := p.Addr().As16()
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])|rnd.Uint64()>>p.Bits())
	binary.BigEndian.PutUint64(b[8:], rnd.Uint64())
	return netip.AddrFrom16(b)
}

// randomRoutes returns n distinct prefixes of one family: lengths as they are
// common in the internet's table, none nested in a martian range.
func randomRoutes(rnd *rand.Rand, ipv6 bool, n int) []Route {
	seen := make(map[netip.Prefix]bool, n)
	routes := make([]Route, 0, n)
	for len(routes) < n {
		var p netip.Prefix
		if ipv6 {
			var a [16]byte
			binary.BigEndian.PutUint64(a[:], rnd.Uint64()>>3|0x2000_0000_0000_0000)
			p = netip.PrefixFrom(netip.AddrFrom16(a), 32+4*rnd.IntN(5)).Masked()
		} else {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], rnd.Uint32())
			if a[0] == 0 || a[0] == 127 || a[0] >= 224 {
				continue
			}
			p = netip.PrefixFrom(netip.AddrFrom4(a), 16+rnd.IntN(9)).Masked()
		}
		if !seen[p] {
			seen[p] = true
			routes = append(routes, Route{p, rnd.IntN(peers)})
		}
	}
	return routes
}

// NewFIB puts routes into a FIB whose neighbours are resolved and whose
// ports carry IP packets of mtu bytes.
func NewFIB(routes []Route, mtu uint16) (*fib.FIB, error) {
	f, err := newFIB(mtu)
	for _, r := range routes {
		if err == nil && r.Prefix.Addr().Is6() {
			err = f.IPv6.Insert(r.Prefix, hopOf(r))
		} else if err == nil {
			err = f.IPv4.Insert(r.Prefix, hopOf(r))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("build table: %w", err)
	}
	return f, nil
}

// NewVRF returns a FIB with the routes in a VRF of port 0.
func NewVRF(routes []Route, mtu uint16) (*fib.FIB, error) {
	f, err := newFIB(mtu)
	if err != nil {
		return nil, err
	}
	vrf, err := f.NewVRF()
	for _, r := range routes {
		if err == nil && r.Prefix.Addr().Is6() {
			err = f.IPv6.VRF(int(vrf)).Insert(r.Prefix, hopOf(r))
		} else if err == nil {
			err = f.IPv4.VRF(int(vrf)).Insert(r.Prefix, hopOf(r))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("build the table of a VRF: %w", err)
	}
	f.SetPortVRF(0, vrf)
	return f, nil
}

// hopOf returns the next hop of a route in newFIB.
func hopOf(r Route) fib.NextHopID { return fib.NextHopID(1 + r.Peer) }

// newFIB returns a FIB with ports and next hops, without routes.
func newFIB(mtu uint16) (*fib.FIB, error) {
	f := fib.New(1)
	f.SetPort(0, RouterMAC, mtu)
	f.SetPort(EgressPort, RouterMAC, mtu)
	for i := range peers {
		adj, err := f.NewAdjacency(EgressPort)
		if err != nil {
			return nil, err
		}
		f.SetAdjacency(adj, EgressPort, PeerMAC(i))
		id, err := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1})
		if err != nil {
			return nil, err
		}
		if id != hopOf(Route{Peer: i}) {
			return nil, fmt.Errorf("next hop %d has number %d", i, id)
		}
	}
	return f, nil
}

// Answers is the oracle for routes: it gives the neighbour of an address.
func Answers(routes []Route) *oracle.Ranges[int] {
	return oracle.NewRanges(func(yield func(netip.Prefix, int) bool) {
		for _, r := range routes {
			if !yield(r.Prefix, r.Peer) {
				return
			}
		}
	})
}
