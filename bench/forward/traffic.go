package forward

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/packet"
)

// egressPort is the port by which all traffic of the benchmark leaves.
const egressPort = 1

var (
	routerMAC = fib.MAC(0x020000000001) // of the egress port
	peers     = 64                      // neighbours that routes point to
)

func peerMAC(i int) fib.MAC { return fib.MAC(0x020000010000 + uint64(i)) }

// route is one prefix of the benchmark's table.
type route struct {
	prefix netip.Prefix
	peer   int
}

// makeRoutes returns the routes of the table that the options name.
func makeRoutes(rnd *rand.Rand, o Options) ([]route, error) {
	if o.Table == "random" {
		return randomRoutes(rnd, o.IPv6, o.Routes), nil
	}
	f := routes.IPv4
	if o.IPv6 {
		f = routes.IPv6
	}
	set, err := routes.New(o.Table, f, o.Routes, o.Seed)
	if err != nil {
		return nil, err
	}
	list := make([]route, 0, set.Len())
	for _, p := range set.Prefixes {
		if a := p.Addr(); a.Is4() || p.Bits() <= 64 { // frames go to addresses whose second half is random
			list = append(list, route{p, rnd.IntN(peers)})
		}
	}
	return list, nil
}

// randomRoutes returns n distinct prefixes of one family: lengths as they are
// common in the internet's table, none nested in a martian range.
func randomRoutes(rnd *rand.Rand, ipv6 bool, n int) []route {
	seen := make(map[netip.Prefix]bool, n)
	routes := make([]route, 0, n)
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
			routes = append(routes, route{p, rnd.IntN(peers)})
		}
	}
	return routes
}

// buildFIB puts the routes into a forwarding base whose neighbours are resolved.
func buildFIB(routes []route) (*fib.FIB, error) {
	f := fib.New(1)
	f.SetPort(0, routerMAC, 1500)
	f.SetPort(egressPort, routerMAC, 1500)
	hops := make([]fib.ID, peers)
	for i := range hops {
		adj, err := f.NewAdjacency(egressPort)
		if err != nil {
			return nil, err
		}
		f.SetAdjacency(adj, egressPort, peerMAC(i))
		if hops[i], err = f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1}); err != nil {
			return nil, err
		}
	}
	for _, r := range routes {
		table := f.IPv4.Table
		if r.prefix.Addr().Is6() {
			table = f.IPv6.Table
		}
		if err := table.Insert(r.prefix, hops[r.peer]); err != nil {
			return nil, fmt.Errorf("build table: %w", err)
		}
	}
	return f, nil
}

// frames returns n frames of the given size in bytes, FCS not counted, each to a
// random address that a random route covers.
func frames(rnd *rand.Rand, routes []route, n, size int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		f := make([]byte, size)
		binary.BigEndian.PutUint64(f, 0x020000000001_0200) // both link addresses; the source's tail is zero
		for j := packet.EthernetLen; j < size; j++ {
			f[j] = byte(rnd.Uint32())
		}
		p := routes[rnd.IntN(len(routes))].prefix
		if p.Addr().Is6() {
			writeIPv6(f, rnd, p)
		} else {
			writeIPv4(f, rnd, p)
		}
		out[i] = f
	}
	return out
}

func writeIPv4(f []byte, rnd *rand.Rand, to netip.Prefix) {
	binary.BigEndian.PutUint16(f[12:], uint16(packet.EtherTypeIPv4))
	h := f[packet.EthernetLen : packet.EthernetLen+packet.IPv4Len]
	copy(h, []byte{0x45, 0})
	binary.BigEndian.PutUint16(h[2:], uint16(len(f)-packet.EthernetLen))
	copy(h[6:], []byte{0x40, 0, 64, byte(packet.UDP), 0, 0, 10})
	dst := to.Addr().As4()
	host := rnd.Uint32() >> to.Bits()
	binary.BigEndian.PutUint32(h[16:], binary.BigEndian.Uint32(dst[:])|host)
	binary.BigEndian.PutUint16(h[10:], packet.Checksum(h))
}

func writeIPv6(f []byte, rnd *rand.Rand, to netip.Prefix) {
	binary.BigEndian.PutUint16(f[12:], uint16(packet.EtherTypeIPv6))
	h := f[packet.EthernetLen : packet.EthernetLen+packet.IPv6Len]
	copy(h, []byte{0x60, 0, 0, 0})
	binary.BigEndian.PutUint16(h[4:], uint16(len(f)-packet.EthernetLen-packet.IPv6Len))
	copy(h[6:], []byte{byte(packet.UDP), 64, 0x20, 0x01, 0x0d, 0xb8})
	dst := to.Addr().As16()
	copy(h[24:], dst[:])
	top := binary.BigEndian.Uint64(dst[:8]) | rnd.Uint64()>>to.Bits()
	binary.BigEndian.PutUint64(h[24:], top)
	binary.BigEndian.PutUint64(h[32:], rnd.Uint64())
}
