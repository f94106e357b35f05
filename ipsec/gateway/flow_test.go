package gateway

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

var prefix = netip.MustParsePrefix

func newSA(t *testing.T, g *Gateway, d ipsec.Direction, name string, spi uint32) *ipsec.SA {
	t.Helper()
	s, err := ipsec.NewSA(ipsec.Config{
		Name: name, SPI: spi, Direction: d, Src: netip.MustParseAddr("198.51.100.1"), Dst: netip.MustParseAddr("198.51.100.2"),
		Suite: "aes128gcm16", Key: bytes.Repeat([]byte{byte(spi)}, 20), ReplayWindow: 64, Tunnel: g.Tunnel(name),
	}, 1)
	require.NoError(t, err)
	require.NoError(t, g.Add(s))
	return s
}

// flow returns the flow of a frame.
func flow(t *testing.T, frame []byte) Flow {
	t.Helper()
	p := frame[packet.EthernetLen:]
	if p[0]>>4 == 4 {
		return FlowIPv4(p)
	}
	l4, ok := packet.FindL4(p)
	if !ok {
		t.Fatal("the packet's headers are broken")
	}
	return FlowIPv6(p, l4)
}

// A packet of a protected port cannot be fragmented to leave in cleartext, and one that is fragmented
// because it does not fit the tunnel still uses the tunnel.
func TestFragmentsDoNotEscapePoliciesOfPorts(t *testing.T) {
	g := &Gateway{}
	out, in := newSA(t, g, ipsec.Out, "out", 0x100), newSA(t, g, ipsec.In, "in", 0x200)
	rule := func(d ipsec.Direction, src, dst string, protocol uint8, port uint16, a policy.Action, target uint32) Rule {
		return Rule{Direction: d, Policy: policy.Policy{Src: prefix(src), Dst: prefix(dst), Protocol: protocol, DstPorts: policy.Port(port), Action: a, Target: target}}
	}
	require.NoError(t, g.SetRules([]Rule{
		rule(ipsec.Out, "192.0.2.0/24", "10.1.0.0/16", 17, 5000, policy.Protect, out.Tunnel()),
		rule(ipsec.In, "192.0.2.0/24", "10.1.0.0/16", 17, 5000, policy.Protect, in.Tunnel()),
		rule(ipsec.Out, "2001:db8::/64", "fd01::/64", 17, 5000, policy.Protect, out.Tunnel()),
		rule(ipsec.In, "2001:db8::/64", "fd01::/64", 17, 5000, policy.Protect, in.Tunnel()),
		rule(ipsec.Out, "192.0.2.0/24", "10.2.0.0/16", 6, 25, policy.Discard, 0),
		rule(ipsec.In, "192.0.2.0/24", "10.2.0.0/16", 6, 25, policy.Discard, 0),
	}))
	udp4, tcp4 := testutil.UDP4("192.0.2.1", "10.1.0.9", 1, 5000, make([]byte, 40)...), testutil.Edit(testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 25, make([]byte, 40)...), 9, 6)
	udp6 := testutil.UDP6("2001:db8::1", "fd01::9", 1, 5000, make([]byte, 40)...)
	// A Fragment header in place of UDP's: first, later, and later with more extension headers.
	first6 := testutil.Edit(testutil.Edit(udp6, 6, 44), 40, 17, 0, 0, 1, 0, 0, 0, 1)
	later6 := testutil.Edit(testutil.Edit(udp6, 6, 44), 40, 17, 0, 0, 8, 0, 0, 0, 1)
	hidden6 := testutil.Edit(testutil.Edit(udp6, 6, 44), 40, 60, 0, 0, 8, 0, 0, 0, 1)
	for _, c := range []struct {
		name    string
		frame   []byte
		discard bool
	}{
		{"whole", udp4, false},
		{"first fragment", testutil.Edit(udp4, 6, 0x20, 0), false},
		{"last fragment", testutil.Edit(udp4, 6, 0, 8), false},
		{"too short for ports", testutil.Edit(udp4, 2, 0, 22), false},
		{"IPv6, whole", udp6, false},
		{"IPv6, first fragment", first6, false},
		{"IPv6, last fragment", later6, false},
		{"IPv6, last fragment of a packet with more headers", hidden6, false},
		{"discarded, whole", tcp4, true},
		{"discarded, fragment", testutil.Edit(tcp4, 6, 0x20, 9), true},
	} {
		f := flow(t, c.frame)
		wantOut, wantIn := ipsec.OK, ipsec.InTmplMismatch
		if c.discard {
			wantOut, wantIn = ipsec.OutPolBlock, ipsec.InPolBlock
		}
		if s, err := g.LookupOutbound(&f); err != wantOut || !c.discard && s != out {
			t.Errorf("%s: leaves by %v, %v", c.name, s, err)
		}
		if err := g.CheckInbound(&f, nil); err != wantIn {
			t.Errorf("%s: in clear: %v", c.name, err)
		}
		if err := g.CheckInbound(&f, in); !c.discard && err != ipsec.OK {
			t.Errorf("%s: protected: %v", c.name, err)
		}
	}
	other := testutil.Edit(testutil.UDP4("192.0.2.1", "10.2.0.9", 1, 5000, make([]byte, 40)...), 6, 0x20, 0)
	if f := flow(t, other); g.CheckInbound(&f, nil) != ipsec.OK {
		t.Error("a fragment that no policy can mean is refused")
	}
}
