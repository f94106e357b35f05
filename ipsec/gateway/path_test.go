package gateway

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

// outbound adds an SA that has sent five packets.
func outbound(t *testing.T, g *Gateway, spi uint32, src, dst string, mode ipsec.Mode, alter ...func(*ipsec.Config)) *ipsec.SA {
	t.Helper()
	c := ipsec.Config{
		SPI: spi, Mode: mode, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst),
		Suite: "aes128gcm16", Key: bytes.Repeat([]byte{byte(spi)}, 20), Tunnel: g.Tunnel(src + dst),
	}
	for _, a := range alter {
		a(&c)
	}
	s, err := ipsec.NewSA(c, 1)
	require.NoError(t, err)
	require.NoError(t, g.Add(s))
	s.Skip(5)
	return s
}

// An error is believed if it quotes a packet that may be ours and its MTU is plausible.
func TestImplausiblePathMTUErrorsAreIgnored(t *testing.T) {
	const us, them, us6, them6 = "192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db8:1::1"
	tooBig := func(src, dst string, spi, seq uint32, size, mtu int) TooBig {
		return TooBig{Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), SPI: spi, Sequence: seq, ID: uint16(seq), DF: true, Size: size, MTU: mtu}
	}
	with := func(t TooBig, alter func(*TooBig)) TooBig {
		alter(&t)
		return t
	}
	const natted = "198.51.100.8"
	for _, c := range []struct {
		rule string
		say  TooBig
		want int // of path MTU
	}{
		{"it quotes the last packet", tooBig(us, them, 0x1000, 5, 1500, 1300), 1300},
		{"it quotes the first packet", tooBig(us, them, 0x1000, 1, 1500, 1300), 1300},
		{"IPv6", tooBig(us6, them6, 0x1000, 5, 1500, 1300), 1300},
		{"a packet that was not sent yet", tooBig(us, them, 0x1000, 6, 1500, 1300), 0},
		{"a packet that was not sent at all", tooBig(us, them, 0x1000, 0, 1500, 1300), 0},
		{"another SPI", tooBig(us, them, 0x1001, 5, 1500, 1300), 0},
		{"from another address", tooBig("192.0.2.2", them, 0x1000, 5, 1500, 1300), 0},
		{"to another gateway", tooBig(us, "198.51.100.2", 0x1000, 5, 1500, 1300), 0},
		{"the packet fits", tooBig(us, them, 0x1000, 5, 1300, 1300), 0},
		{"no path is that narrow", tooBig(us, them, 0x1000, 5, 1500, 68), 576},
		{"a router that does not say", tooBig(us, them, 0x1000, 5, 1500, 0), 576},
		{"less than every IPv6 link has", tooBig(us6, them6, 0x1000, 5, 1500, 1279), 0},
		{"the least of IPv6", tooBig(us6, them6, 0x1000, 5, 1500, 1280), 1280},
		{"another identification", with(tooBig(us, them, 0x1000, 5, 1500, 1300), func(t *TooBig) { t.ID++ }), 0},
		{"a packet that routers fragment", with(tooBig(us, them, 0x1000, 5, 1500, 1300), func(t *TooBig) { t.DF = false }), 0},
		{"in UDP", with(tooBig(us, them, 0x1000, 5, 1500, 1300), func(t *TooBig) { t.Encap = ipsec.Encap{SrcPort: 4500, DstPort: 4500} }), 0},
		{"not in UDP", tooBig(us, natted, 0x1000, 5, 1500, 1300), 0},
		{"by other UDP ports", with(tooBig(us, natted, 0x1000, 5, 1500, 1300), func(t *TooBig) { t.Encap = ipsec.Encap{SrcPort: 4501, DstPort: 4500} }), 0},
		{"behind a NAT with identifications of its own", with(tooBig(us, natted, 0x1000, 5, 1500, 1300), func(t *TooBig) {
			t.Encap, t.ID = ipsec.Encap{SrcPort: 4500, DstPort: 4500}, 999
		}), 1300},
		{"an association of transport mode", tooBig(us, "198.51.100.9", 0x1000, 5, 1500, 1300), 0},
	} {
		g := &Gateway{}
		sas := map[string]*ipsec.SA{
			them: outbound(t, g, 0x1000, us, them, ipsec.Tunnel), them6: outbound(t, g, 0x1000, us6, them6, ipsec.Tunnel),
			natted:         outbound(t, g, 0x1000, us, natted, ipsec.Tunnel, func(c *ipsec.Config) { c.Encap = &ipsec.Encap{SrcPort: 4500, DstPort: 4500} }),
			"198.51.100.9": outbound(t, g, 0x1000, us, "198.51.100.9", ipsec.Transport),
		}
		mtu, changed := g.Learn(c.say, 0)
		if mtu != c.want {
			t.Errorf("%s: %d bytes are reported to be the path's MTU, want %d", c.rule, mtu, c.want)
		}
		for dst, s := range sas {
			want := 0
			if dst == c.say.Dst.String() {
				want = c.want
			}
			if s.PathMTU() != want || changed != (c.want != 0) {
				t.Errorf("%s: the path to %s has an MTU of %d, want %d; changed %v", c.rule, dst, s.PathMTU(), want, changed)
			}
		}
	}
}

// A path MTU applies to all SAs of the path, later ones included, until it expires; errors never raise
// it.
func TestPathMTUsExpire(t *testing.T) {
	g := &Gateway{}
	a, other := outbound(t, g, 0x1000, "192.0.2.1", "198.51.100.1", ipsec.Tunnel), outbound(t, g, 0x1000, "192.0.2.1", "198.51.100.2", ipsec.Tunnel)
	learn := func(spi uint32, mtu int, now time.Duration) bool {
		_, changed := g.Learn(TooBig{Src: a.Config().Src, Dst: a.Dst(), SPI: spi, Sequence: 5, ID: 5, DF: true, Size: 1500, MTU: mtu}, now)
		return changed
	}
	expect := func(when string, want int, sas ...*ipsec.SA) {
		t.Helper()
		for _, s := range sas {
			if s.PathMTU() != want {
				t.Errorf("%s: association %#x has a path of %d bytes, want %d", when, s.Config().SPI, s.PathMTU(), want)
			}
		}
	}
	if !learn(0x1000, 1400, time.Minute) || learn(0x1000, 1400, 2*time.Minute) || learn(0x1000, 1450, 2*time.Minute) {
		t.Error("a path has changed that is as wide as before")
	}
	if learn(0x1000, 1399, time.Minute+changeEvery-1) {
		t.Error("a path has changed twice in a second")
	}
	b := outbound(t, g, 0x1001, "192.0.2.1", "198.51.100.1", ipsec.Tunnel)
	expect("rekeyed", 1400, a, b)
	g.Remove(a)
	if learn(0x1000, 1300, 3*time.Minute) {
		t.Error("an association that is gone is still believed")
	}
	if !learn(0x1001, 1300, 3*time.Minute) {
		t.Error("a narrower path was not learned")
	}
	expect("learned again", 1300, b)
	expect("of another path", 0, other)
	if g.TickPaths(3*time.Minute+pathMemory-1) || !g.TickPaths(3*time.Minute+pathMemory) || g.TickPaths(time.Hour) {
		t.Error("the path was not forgotten when it was time")
	}
	expect("forgotten", 0, b, outbound(t, g, 0x1002, "192.0.2.1", "198.51.100.1", ipsec.Tunnel))
}

// Only packets of the last second or two can be on the path: old sequence numbers can be guessed
// without seeing the tunnel.
func TestOldPacketsDoNotNarrowPaths(t *testing.T) {
	for _, start := range []uint64{5, 1 << 16, 1<<32 - 3, 1 << 33} {
		g := &Gateway{}
		s := outbound(t, g, 0x1000, "192.0.2.1", "198.51.100.1", ipsec.Tunnel, func(c *ipsec.Config) { c.ESN = true })
		believes := func(seq uint64) bool {
			probe := TooBig{Src: s.Config().Src, Dst: s.Dst(), SPI: 0x1000, Sequence: uint32(seq), ID: uint16(seq), DF: true, Size: 1500, MTU: 1300}
			return g.paths.sas[pathOf(s)].sent(&probe)
		}
		s.Skip(start)
		now := time.Hour
		tick := func() { now += time.Second; g.TickPaths(now) }
		tick()
		tick()
		s.Skip(start + 10)
		tick()
		s.Skip(start + 20)
		for _, c := range []struct {
			seq  uint64 // of which the lower half is quoted
			want bool
		}{
			{start + 1, true}, {start + 10, true}, {start + 20, true}, {start + 5 + 1<<32, true},
			{start, false}, {start + 21, false}, {start + 1<<31, false}, {start + 1<<32, false},
		} {
			if believes(c.seq) != c.want {
				t.Errorf("after %d and 20 more, number %d is believed: %v", start, c.seq, !c.want)
			}
		}
		if start < 1<<32-20 && believes(1) {
			t.Errorf("after %d packets, the first is believed to be recent", start)
		}
		tick()
		if believes(start+10) || !believes(start+11) {
			t.Errorf("after %d and 20 more: a packet of the second before the last one is believed, or one of the last not", start)
		}
		tick()
		if believes(start + 20) {
			t.Errorf("after %d and 20 more: a packet of two seconds ago is believed", start)
		}
	}
}
