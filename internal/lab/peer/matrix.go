package peer

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/ipsec/suite"
)

// Side is a side of tunnels: its gateway's addresses between the gateways and in its own networks, each
// IPv4 and IPv6.
type Side struct{ Outer, Inner [2]netip.Prefix }

// Left and Right are the sides of tests.
var (
	Left  = side("192.0.2.1/24", "2001:db8::1/64", "10.1.0.1/16", "fd01::1/64")
	Right = side("192.0.2.2/24", "2001:db8::2/64", "10.2.0.1/16", "fd02::1/64")
)

func side(outer4, outer6, inner4, inner6 string) Side {
	p := netip.MustParsePrefix
	return Side{[2]netip.Prefix{p(outer4), p(outer6)}, [2]netip.Prefix{p(inner4), p(inner6)}}
}

// At returns the configuration of a peer at a link, with routes to the remote side.
func (s Side) At(ns *lab.Namespace, link string, remote Side) Config {
	c := Config{Namespace: ns, Link: link, Addresses: s.Outer[:], Inner: s.Inner[:]}
	for i, dst := range remote.Inner {
		c.Routes = append(c.Routes, Route{Dst: dst.Masked(), Via: remote.Outer[i].Addr(), Source: s.Inner[i].Addr()})
	}
	return c
}

// Case is a pair of SAs and the flow that it protects.
type Case struct {
	Name string
	Pair Pair
	Flow Flow
}

// Matrix returns all combinations of suite, mode, families, ESN and UDP encapsulation, as the local side
// has them. Each protects a flow between two hosts of its own.
func Matrix(local, remote Side) (all []Case) {
	shapes := []struct {
		mode         Mode
		inner, outer int // 0: IPv4, 1: IPv6
	}{{Tunnel, 0, 0}, {Tunnel, 1, 0}, {Tunnel, 0, 1}, {Tunnel, 1, 1}, {Transport, 0, 0}, {Transport, 1, 1}}
	family := [...]string{"4", "6"}
	for i := range 4 * len(shapes) * len(suite.All) {
		s, shape := &suite.All[i%len(suite.All)], shapes[i/len(suite.All)%len(shapes)]
		variant := i / len(suite.All) / len(shapes)
		flow := Flow{nth(local.Inner[shape.inner], 100+i), nth(remote.Inner[shape.inner], 100+i)}
		pair := Pair{
			Suite: s, Mode: shape.mode, ESN: variant&1 != 0, UDP: variant&2 != 0,
			In: RandomSA(s, uint32(0x1000+i)), Out: RandomSA(s, uint32(0x2000+i)),
			Local: local.Outer[shape.outer].Addr(), Remote: remote.Outer[shape.outer].Addr(), LocalNet: host(flow.From), RemoteNet: host(flow.To),
		}
		if pair.Mode == Transport {
			pair.Local, pair.Remote = flow.From, flow.To
		}
		name := fmt.Sprintf("%s, %s %s in %s, ESN %v, UDP %v", s.Name, shape.mode, family[shape.inner], family[shape.outer], pair.ESN, pair.UDP)
		all = append(all, Case{name, pair, flow})
	}
	return all
}

// nth returns the nth address of a prefix.
func nth(p netip.Prefix, n int) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	b[len(b)-2], b[len(b)-1] = byte(n>>8), byte(n)
	a, _ := netip.AddrFromSlice(b)
	return a
}
