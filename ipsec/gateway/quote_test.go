package gateway

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// quoting returns a gateway with a tunnel from 10.8/16 and fd08::/16 to 10.7/16 and fd07::/16, in both
// directions.
func quoting(tb testing.TB) (*Gateway, *ipsec.SA) {
	g := &Gateway{}
	s, err := ipsec.NewSA(ipsec.Config{
		SPI: 0x1000, Direction: ipsec.In, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("198.51.100.1"),
		Suite: "aes128gcm16", Key: bytes.Repeat([]byte{7}, 20), Tunnel: g.Tunnel("in"),
	}, 1)
	require.NoError(tb, err)
	require.NoError(tb, g.Add(s))
	var rules []Rule
	for _, p := range [][2]string{{"10.8.0.0/16", "10.7.0.0/16"}, {"fd08::/16", "fd07::/16"}} {
		far, near := netip.MustParsePrefix(p[0]), netip.MustParsePrefix(p[1])
		rules = append(rules, Rule{Direction: ipsec.In, Policy: policy.Policy{Src: far, Dst: near, Action: policy.Protect, Target: s.Tunnel()}})
	}
	require.NoError(tb, g.SetRules(rules))
	return g, s
}

// icmpError returns an ICMP error to dst that quotes UDP from src to far.
func icmpError(dst, src, far string, typ byte) []byte {
	to, from, quoted := netip.MustParseAddr(dst), netip.MustParseAddr(src), netip.MustParseAddr(far)
	ports := []byte{0, 1, 0, 2, 0, 8, 0, 0}
	if to.Is4() {
		inner := append(append(append([]byte{0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0}, from.AsSlice()...), quoted.AsSlice()...), ports...)
		p := append(append([]byte{0x45, 0, 0, 0, 0, 1, 0, 0, 64, 1, 0, 0, 203, 0, 113, 1}, to.AsSlice()...), typ, 0, 0, 0, 0, 0, 0, 0)
		p = append(p, inner...)
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		return p
	}
	inner := append(append(append([]byte{0x60, 0, 0, 0, 0, 8, 17, 64}, from.AsSlice()...), quoted.AsSlice()...), ports...)
	router := netip.MustParseAddr("2001:db8::1")
	p := append(append(append([]byte{0x60, 0, 0, 0, 0, byte(8 + len(inner)), 58, 64}, router.AsSlice()...), to.AsSlice()...), typ, 0, 0, 0, 0, 0, 0, 0)
	return append(p, inner...)
}

// FuzzQuote has a peer send ICMP errors that no policy selects through its tunnel: none reaches an address
// beyond the policies, nor one that is not the quoted source.
func FuzzQuote(f *testing.F) {
	g, s := quoting(f)
	genuine := [][]byte{icmpError("10.7.0.2", "10.7.0.2", "10.8.0.5", 11), icmpError("fd07::2", "fd07::2", "fd08::5", 3)}
	for i, p := range genuine {
		if !enters(g, s, p) {
			f.Fatalf("a router's error does not enter: %d", i)
		}
		f.Add(p)
	}
	f.Add(icmpError("10.13.0.9", "10.7.0.2", "10.8.0.5", 11))
	f.Add(icmpError("10.7.0.2", "10.7.0.2", "10.8.0.5", 5))
	f.Add(icmpError("10.7.0.2", "10.7.0.2", "10.9.0.5", 3))
	f.Fuzz(func(t *testing.T, p []byte) {
		if !valid(p) || !enters(g, s, p) {
			return
		}
		near, at := netip.MustParsePrefix("10.7.0.0/16"), 16
		if p[0]>>4 == 6 {
			near, at = netip.MustParsePrefix("fd07::/16"), 24
		}
		n := near.Addr().BitLen() / 8
		dst, _ := netip.AddrFromSlice(p[at : at+n])
		if !near.Contains(dst) || !bytes.Contains(p[at+n:], p[at:at+n]) {
			t.Errorf("%x enters", p)
		}
	})
}

// valid reports whether the engine would pass a packet to the policies as an ICMP error.
func valid(p []byte) bool {
	switch {
	case len(p) >= 28 && p[0] == 0x45 && p[9] == 1:
		n := (*packet.IPv4)(p).TotalLen()
		return n >= 28 && n <= len(p)
	case len(p) >= 48 && p[0]>>4 == 6 && p[6] == 58:
		n := packet.IPv6Len + (*packet.IPv6)(p).PayloadLen()
		return n >= 48 && n <= len(p)
	}
	return false
}

func enters(g *Gateway, s *ipsec.SA, p []byte) bool {
	l4 := packet.IPv4Len
	if p[0]>>4 == 6 {
		l4 = packet.IPv6Len
	}
	q, ok := ReadQuote(p, l4)
	return ok && g.CheckInboundError(&q, ipsec.InNoPols, s) == ipsec.OK
}
