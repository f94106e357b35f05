package ipsec

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"

	"github.com/warproute/warproute/bench/bed"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
)

// tunnel connects a site with one that a route leads to.
type tunnel struct {
	spi      uint32
	keys     keys
	from, to netip.Addr   // of the outer header
	src, dst netip.Prefix // the sites
	library  *library
	worker   int    // that its packets to decrypt reach
	sequence uint32 // of packets prepared
}

// keys are a suite's.
type keys struct{ cipher, auth []byte }

var (
	gateway4 = netip.MustParseAddr("198.51.100.1")
	gateway6 = netip.MustParseAddr("2001:db8::1")
)

// makeTunnels makes the tunnels. The routes that their packets meet are spread over the
// table: outbound that to the other gateway, inbound that to the site.
func (t *traffic) makeTunnels() error {
	ours := gateway4
	if t.IPv6 {
		ours = gateway6
	}
	for i := range t.SAs {
		peer, site := bed.Destination(t.rnd, t.routes), bed.Destination(t.rnd, t.routes)
		n := &tunnel{
			spi: 0x1000 + uint32(i), src: siteOf(i, t.IPv6), dst: prefixOf(site),
			from: ours, to: peer, worker: i % t.Bed.Workers,
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

// siteOf is the network of ours that tunnel i begins at: 10.x.y.0/24, or as many of
// fd00::/8.
func siteOf(i int, ipv6 bool) netip.Prefix {
	if ipv6 {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)}), 64)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)}), 24)
}

// prefixOf is the site that an address is of: a usual subnet.
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

// gateway returns a gateway whose associations are new, with the policies of both
// directions.
func (t *traffic) gateway(window, workers int) (*gateway.Gateway, error) {
	g := &gateway.Gateway{}
	rules := make([]gateway.Rule, 0, 2*len(t.tunnels))
	for i, n := range t.tunnels {
		bundle := g.Bundle(strconv.Itoa(i))
		s, err := esp.NewSA(esp.Config{
			SPI: n.spi, Direction: t.Direction, Src: n.from, Dst: n.to, Suite: t.Suite,
			Key: n.keys.cipher, AuthKey: n.keys.auth, ReplayWindow: window, Bundle: bundle,
		}, workers)
		if err != nil {
			return nil, err
		}
		if err := g.Add(s); err != nil {
			return nil, err
		}
		rules = append(rules,
			gateway.Rule{Direction: t.Direction, Policy: policy.Policy{Src: n.src, Dst: n.dst, Action: policy.Protect, Target: bundle}},
			gateway.Rule{Direction: esp.In - t.Direction, Policy: policy.Policy{Src: n.dst, Dst: n.src, Action: policy.Protect, Target: bundle}})
	}
	if err := g.SetRules(rules); err != nil {
		return nil, err
	}
	return g, nil
}
