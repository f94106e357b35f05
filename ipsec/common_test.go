package ipsec

import (
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/packet"
)

// whole returns the IP packet at the start of p by its length field, and whether it is as long as an IP
// header at least, and no longer than p.
func whole(p []byte) ([]byte, bool) {
	var h header
	if !h.parse(p) || h.v4 && h.len != packet.IPv4Len {
		return nil, false
	}
	return p[:h.total], true
}

// TestFindCommonAgreesWithFind: on packets of all kinds with random bytes in their headers, FindCommon finds
// what Find finds, and nearly always finds it.
func TestFindCommonAgreesWithFind(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	found, missed := 0, 0
	for range 40_000 {
		c := config(rnd, []string{"aes128gcm16", "aes128-sha1", "null-sha256"}[rnd.IntN(3)], Mode(rnd.IntN(8)/7), rnd.IntN(2) == 0)
		c.ESN = rnd.IntN(2) == 0
		if rnd.IntN(2) == 0 {
			c.Encap = &Encap{4500, 4500}
		}
		out, in := pair(t, c)
		buf, at, n := encapsulated(t, out, ipPacket(rnd, c.Dst.Is4(), packet.UDP, rnd.IntN(80)))
		p := append(buf[at:at+n:at+n], make([]byte, rnd.IntN(20))...) // Ethernet padding
		mutated := rnd.IntN(2) == 0
		if mutated {
			for range 1 + rnd.IntN(3) {
				p[rnd.IntN(min(len(p), 64))] = byte(rnd.Uint32())
			}
		}
		p, ok := whole(p)
		if !ok {
			continue
		}
		var want Incoming
		err := in.Find(0, p, 0, len(p), &want)
		spi, from := InboundCommon(p)
		if spi == 0 {
			if !mutated {
				t.Fatalf("%+v: not found in % x", c, p)
			}
			continue
		}
		if inboundSPI, inboundAt, _ := Inbound(p); inboundSPI != spi || inboundAt != from {
			t.Fatalf("SPI %#x at %d, Inbound says %#x at %d, of % x", spi, from, inboundSPI, inboundAt, p)
		}
		if spi != c.SPI {
			continue // of another SA
		}
		seq, end, ok := in.FindCommon(p, from)
		switch {
		case !ok && err == OK && c.Mode == Tunnel:
			missed++
		case !ok:
		case err == InStateSeqError: // by the window, which FindCommon leaves to Confirm
		case err != OK || seq != want.Seq || from != want.ESP || end != want.End:
			t.Fatalf("%d, ESP from %d to %d; Find: %v, %+v, of % x", seq, from, end, err, want, p)
		default:
			found++
		}
	}
	if found < 10_000 || missed > 0 {
		t.Errorf("%d found, %d missed", found, missed)
	}
}

// TestReplaysCountAsReplays, whether or not the device could authenticate them.
func TestReplaysCountAsReplays(t *testing.T) {
	c := config(rand.New(rand.NewPCG(5, 5)), "aes128gcm16", Tunnel, true)
	_, in := pair(t, c)
	for _, x := range []struct {
		seq       uint64
		authentic bool
		want      Error
	}{
		{7, false, InStateProtoError}, {7, true, OK}, {7, true, InStateSeqError}, {7, false, InStateSeqError},
		{100, true, OK}, {36, false, InStateSeqError}, {37, false, InStateProtoError}, {0, false, InStateSeqError},
	} {
		if got := in.Confirm(0, x.seq, x.authentic); got != x.want {
			t.Errorf("%d, authentic %v: %v, want %v", x.seq, x.authentic, got, x.want)
		}
	}
	if s := in.Stats(); s.Replays != 4 || s.ICVFailures != 2 {
		t.Errorf("%+v", s)
	}
}
