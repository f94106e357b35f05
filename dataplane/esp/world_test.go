package esp_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/packet/icmp"
)

type world = testutil.World[*cpu.Engine]

func newWorld(t testing.TB) *world { return testutil.NewWorld(t, cpu.New) }

func to4(dst string) []byte { return testutil.UDP4("192.0.2.1", dst, 1000, 53, make([]byte, 40)...) }
func to6(dst string) []byte { return testutil.UDP6("2001:db8::1", dst, 1000, 53, make([]byte, 40)...) }

var mac1 = []byte{2, 0, 0, 0, 0, 0x11}

var prefix = netip.MustParsePrefix

// checkSources makes port 1 strict, and port 2 loose in IPv4 alone.
func checkSources(w *world) {
	w.Net.SetRPF(1, fib.RPF{IPv4: fib.RPFStrict, IPv6: fib.RPFStrict})
	w.Net.SetRPF(2, fib.RPF{IPv4: fib.RPFLoose})
}

// config returns the SA between two gateways, both reached by port 1.
func config(d ipsec.Direction, ipv6 bool) ipsec.Config {
	c := ipsec.Config{
		Name: d.String(), SPI: 0x1234, Direction: d, Src: netip.MustParseAddr("198.51.100.1"), Dst: netip.MustParseAddr("10.1.9.9"),
		Suite: "aes128gcm16", Key: bytes.Repeat([]byte{7}, 20), ReplayWindow: 64,
	}
	if ipv6 {
		c.Src, c.Dst = netip.MustParseAddr("2001:db8::f1"), netip.MustParseAddr("fd01::f9")
	}
	return c
}

// secured returns a world with a gateway of one SA, and policies for
// 192.0.2/24 to 10.1/16, 10.2/16 and 2001:db8::/64 to fd01::/64, fd02::/64; 10.5/16 is
// discarded, and 10.1.7.7 bypassed.
func secured(t testing.TB, c ipsec.Config, alter ...func(*ipsec.Config)) (*world, *gateway.Gateway, *ipsec.SA) {
	w, g := newWorld(t), &gateway.Gateway{}
	c.Tunnel = g.Tunnel("b")
	for _, a := range alter {
		a(&c)
	}
	s, err := ipsec.NewSA(c, 2)
	require.NoError(t, err)
	require.NoError(t, g.Add(s))
	rule := func(src, dst string, a policy.Action) gateway.Rule {
		r := gateway.Rule{Direction: c.Direction, Policy: policy.Policy{Src: prefix(src), Dst: prefix(dst), Action: a}}
		if a == policy.Protect {
			r.Target = c.Tunnel
		}
		return r
	}
	require.NoError(t, g.SetRules([]gateway.Rule{
		rule("0.0.0.0/0", "10.1.7.7/32", policy.Bypass), rule("0.0.0.0/0", "10.5.0.0/16", policy.Discard),
		rule("192.0.2.0/24", "10.1.0.0/16", policy.Protect), rule("192.0.2.0/24", "10.2.0.0/16", policy.Protect),
		rule("2001:db8::/64", "fd01::/64", policy.Protect), rule("2001:db8::/64", "fd02::/64", policy.Protect),
	}))
	w.Engine.Secure(g, 1)
	return w, g, s
}

// about returns an ICMP error from an address about a packet, both in frames.
func about(offending []byte, from string) []byte {
	f := make([]byte, 600)
	copy(f, offending[:packet.EthernetLen])
	n := icmp.Build(f[packet.EthernetLen:], offending[packet.EthernetLen:], icmp.Error{Cause: icmp.TimeExceeded}, netip.MustParseAddr(from), 1)
	return f[:packet.EthernetLen+n]
}

// behind routes the protected hosts by port 2. Port 1 leads to the peer.
func behind(w *world) {
	w.Net.Route(w.Net.IPv4.Lookup(0x0a020001), "192.0.2.0/24")
	w.Net.Route(w.Net.IPv6.Lookup(netip.MustParseAddr("fd02::1").As16()), "2001:db8::/64")
}

const wan, lan = 1, 2 // ports
