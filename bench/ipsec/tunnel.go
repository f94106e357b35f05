package ipsec

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"github.com/warproute/warproute/bench/testbed"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
)

// tunnel connects a local site with a remote site that a route covers.
type tunnel struct {
	spi      uint32
	keys     keys
	from, to netip.Addr   // of the outer header
	src, dst netip.Prefix // the sites
	library  *library
	worker   int    // that decrypts its packets
	sequence uint32 // of the last prepared packet
}

// keys are the keys of a suite.
type keys struct{ cipher, auth []byte }

var (
	gateway4 = netip.MustParseAddr("198.51.100.1")
	gateway6 = netip.MustParseAddr("2001:db8::1")
)

// makeTunnels makes the tunnels. Peers and remote sites are spread over the routes of the table.
func (t *traffic) makeTunnels() error {
	ours := gateway4
	if t.IPv6 {
		ours = gateway6
	}
	for i := range t.SAs {
		peer, site := testbed.Destination(t.rnd, t.routes), testbed.Destination(t.rnd, t.routes)
		n := &tunnel{
			spi: 0x1000 + uint32(i), src: siteOf(i, t.IPv6), dst: prefixOf(site),
			from: ours, to: peer, worker: i % t.Testbed.Workers,
			keys: keys{random(t.rnd, t.suite.KeyLen+t.suite.SaltLen), random(t.rnd, t.suite.AuthKeyLen)},
		}
		if t.Direction == in {
			n.from, n.to = peer, ours
		}
		var err error
		if n.library, err = newLibrary(t.suite, n.keys); err != nil {
			return fmt.Errorf("tunnel %d: %w", i, err)
		}
		t.tunnels = append(t.tunnels, n)
	}
	return nil
}

// siteOf returns the local site of tunnel i: 10.x.y.0/24, or a /64 of fd00::/8.
func siteOf(i int, ipv6 bool) netip.Prefix {
	if ipv6 {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)}), 64)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24)
}

// prefixOf returns the subnet of an address: a /24 or a /64.
func prefixOf(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, 24).Masked()
	}
	return netip.PrefixFrom(a, 64).Masked()
}

func random(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// gateway returns a gateway with new SAs and the policies of both directions.
func (t *traffic) gateway(window, workers int) (*gateway.Gateway, error) {
	g := &gateway.Gateway{}
	rules := make([]gateway.Rule, 0, 2*len(t.tunnels))
	for i, n := range t.tunnels {
		tunnel := g.Tunnel(strconv.Itoa(i))
		s, err := esp.NewSA(esp.Config{
			SPI: n.spi, Direction: t.Direction, Src: n.from, Dst: n.to, Suite: t.Suite,
			Key: n.keys.cipher, AuthKey: n.keys.auth, ReplayWindow: window, Tunnel: tunnel,
		}, workers)
		if err != nil {
			return nil, err
		}
		if err := g.Add(s); err != nil {
			return nil, err
		}
		rules = append(rules,
			gateway.Rule{Direction: t.Direction, Policy: policy.Policy{Src: n.src, Dst: n.dst, Action: policy.Protect, Target: tunnel}},
			gateway.Rule{Direction: esp.In - t.Direction, Policy: policy.Policy{Src: n.dst, Dst: n.src, Action: policy.Protect, Target: tunnel}})
	}
	if err := g.SetRules(rules); err != nil {
		return nil, err
	}
	return g, nil
}
