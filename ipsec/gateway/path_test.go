package gateway

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/ipsec"
)

// outbound adds an association that has sent five packets.
func outbound(t *testing.T, g *Gateway, spi uint32, src, dst string, mode ipsec.Mode) *ipsec.SA {
	t.Helper()
	s, err := ipsec.NewSA(ipsec.Config{
		SPI: spi, Mode: mode, Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst),
		Suite: "aes128gcm16", Key: bytes.Repeat([]byte{byte(spi)}, 20), Bundle: g.Bundle(src + dst),
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.Skip(5)
	if err := g.Add(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A router is believed if it quotes a packet that may be ours, and says what makes sense.
func TestWhatRoutersSayIsJudged(t *testing.T) {
	const us, them, us6, them6 = "192.0.2.1", "198.51.100.1", "2001:db8::1", "2001:db8:1::1"
	tooBig := func(src, dst string, spi, seq uint32, size, mtu int) TooBig {
		return TooBig{netip.MustParseAddr(src), netip.MustParseAddr(dst), spi, seq, size, mtu}
	}
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
		{"an association of transport mode", tooBig(us, "198.51.100.9", 0x1000, 5, 1500, 1300), 0},
	} {
		g := &Gateway{}
		sas := map[string]*ipsec.SA{
			them: outbound(t, g, 0x1000, us, them, ipsec.Tunnel), them6: outbound(t, g, 0x1000, us6, them6, ipsec.Tunnel),
			"198.51.100.9": outbound(t, g, 0x1000, us, "198.51.100.9", ipsec.Transport),
		}
		changed := g.Learn(c.say, 0)
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

// What is known of a path holds for all associations that use it, those to come as well,
// until it becomes too old; it gets no larger by what routers say.
func TestPathsAreNarrowForAWhile(t *testing.T) {
	g := &Gateway{}
	a, other := outbound(t, g, 0x1000, "192.0.2.1", "198.51.100.1", ipsec.Tunnel), outbound(t, g, 0x1000, "192.0.2.1", "198.51.100.2", ipsec.Tunnel)
	say := func(spi uint32, mtu int) TooBig { return TooBig{a.Config().Src, a.Dst(), spi, 5, 1500, mtu} }
	expect := func(when string, want int, sas ...*ipsec.SA) {
		t.Helper()
		for _, s := range sas {
			if s.PathMTU() != want {
				t.Errorf("%s: association %#x has a path of %d bytes, want %d", when, s.Config().SPI, s.PathMTU(), want)
			}
		}
	}
	if !g.Learn(say(0x1000, 1400), time.Minute) || g.Learn(say(0x1000, 1400), 2*time.Minute) || g.Learn(say(0x1000, 1450), 2*time.Minute) {
		t.Error("a path has changed that is as wide as before")
	}
	b := outbound(t, g, 0x1001, "192.0.2.1", "198.51.100.1", ipsec.Tunnel)
	expect("rekeyed", 1400, a, b)
	g.Remove(a)
	if g.Learn(say(0x1000, 1300), 3*time.Minute) {
		t.Error("an association that is gone is still believed")
	}
	if !g.Learn(say(0x1001, 1300), 3*time.Minute) {
		t.Error("a narrower path was not learned")
	}
	expect("learned again", 1300, b)
	expect("of another path", 0, other)
	if g.Widen(3*time.Minute+pathMemory-1) || !g.Widen(3*time.Minute+pathMemory) || g.Widen(time.Hour) {
		t.Error("the path was not forgotten when it was time")
	}
	expect("forgotten", 0, b, outbound(t, g, 0x1002, "192.0.2.1", "198.51.100.1", ipsec.Tunnel))
}
