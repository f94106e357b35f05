package ipsec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

var (
	outer4 = [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	outer6 = [2]netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}
)

// config returns the Config of an outbound SA with random keys.
func config(rnd *rand.Rand, suiteName string, mode Mode, v4 bool) Config {
	st, err := suite.ByName(suiteName)
	if err != nil {
		panic(err)
	}
	a := outer6
	if v4 {
		a = outer4
	}
	return Config{
		SPI: 0x1000 + rnd.Uint32N(1<<30), Mode: mode, Src: a[0], Dst: a[1], Suite: suiteName,
		Key: randomBytes(rnd, st.KeyLen+st.SaltLen), AuthKey: randomBytes(rnd, st.AuthKeyLen), ReplayWindow: 64,
	}
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func newSA(t testing.TB, c Config, workers int) *SA {
	t.Helper()
	s, err := NewSA(c, workers)
	require.NoError(t, err)
	return s
}

// pair returns both ends of an SA.
func pair(t testing.TB, c Config) (out, in *SA) {
	t.Helper()
	out = newSA(t, c, 1)
	c.Direction = In
	return out, newSA(t, c, 1)
}

// ipPacket returns a packet of a family with a payload of n random bytes.
func ipPacket(rnd *rand.Rand, v4 bool, proto packet.Protocol, n int) []byte {
	p := randomBytes(rnd, ipLen(v4)+n)
	if v4 {
		p[0], p[1], p[6], p[7], p[9], p[10], p[11] = 0x45, byte(rnd.IntN(256)), byte(rnd.IntN(2)*0x40), 0, byte(proto), 0, 0
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:20]))
		return p
	}
	p[0] = 6<<4 | p[0]&0xf
	binary.BigEndian.PutUint16(p[4:], uint16(n))
	p[6] = byte(proto)
	return p
}

const (
	frameLen  = 2048
	frameRoom = 256 // in front of the packet
	canary    = 0xa5
)

// frame returns a frame with p in it, and canaries elsewhere.
func frame(p []byte) []byte {
	f := bytes.Repeat([]byte{canary}, frameLen)
	copy(f[frameRoom:], p)
	return f
}

// encapsulated returns a frame with the ESP packet of p, at an offset and of a length.
func encapsulated(t testing.TB, out *SA, p []byte) (f []byte, at, n int) {
	t.Helper()
	f = frame(p)
	at, n, e := out.Encapsulate(0, f, frameRoom, len(p))
	if e != OK {
		t.Fatal(e)
	}
	return f, at, n
}

// untouched reports whether f holds only canaries outside from:to.
func untouched(f []byte, from, to int) bool {
	for i, b := range f {
		if (i < from || i >= to) && b != canary {
			return false
		}
	}
	return true
}

var sizes = func() (all []int) {
	for n := range 70 {
		all = append(all, n)
	}
	return append(all, 127, 128, 255, 256, 511, 512, 576, 1000, 1280, 1372, 1399, 1400)
}()

// Every suite × mode × families × ESN × UDP × size: decapsulation restores the packet, and nothing
// outside of it is written.
func TestRoundTrips(t *testing.T) {
	for i := range suite.All {
		st := &suite.All[i]
		t.Run(st.Name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for _, c := range []struct {
				mode         Mode
				outer, inner bool // IPv4
			}{{Tunnel, true, true}, {Tunnel, true, false}, {Tunnel, false, true}, {Tunnel, false, false}, {Transport, true, true}, {Transport, false, false}} {
				for _, esn := range []bool{false, true} {
					for _, udp := range []bool{false, true} {
						conf := config(rnd, st.Name, c.mode, c.outer)
						conf.ESN = esn
						if udp {
							conf.Encap = &Encap{PortNATT, PortNATT}
						}
						if esn { // cross the halves' border
							conf.ReplayWindow = 1024
						}
						out, in := pair(t, conf)
						if esn {
							out.Skip(1<<32 - 30)
							in.Skip(1<<32 - 30)
						}
						for _, n := range sizes {
							roundTrip(t, rnd, out, in, c.inner, n)
						}
						if got := in.Stats(); got.Packets != uint64(len(sizes)) || got != out.Stats() {
							t.Errorf("counted %+v sent, %+v received, of %d", out.Stats(), got, len(sizes))
						}
					}
				}
			}
		})
	}
}

func roundTrip(t *testing.T, rnd *rand.Rand, out, in *SA, v4 bool, n int) {
	t.Helper()
	fail := func(format string, a ...any) {
		t.Helper()
		t.Fatalf("%v, outer IPv4 %v, inner IPv4 %v, ESN %v, UDP %v, %d bytes: %s", out.c.Mode, out.c.Dst.Is4(), v4, out.c.ESN, out.c.Encap != nil, n,
			fmt.Sprintf(format, a...))
	}
	p := ipPacket(rnd, v4, 17, n)
	f := frame(p)
	at, length, e := out.Encapsulate(0, f, frameRoom, len(p))
	if e != OK {
		fail("encapsulating: %v", e)
	}
	if !untouched(f, at, at+length) || length > len(p)+out.Overhead() {
		fail("encapsulated to %d bytes at %d: wrote outside, or more than %d more", length, at, out.Overhead())
	}
	if n > 8 && out.suite.Cipher != suite.Null && bytes.Contains(f[at:at+length], p[len(p)-8:]) {
		fail("sent in clear")
	}
	var h header
	ok := h.parse(f[at : at+length])
	if !ok || h.total != length || h.v4 && !(*packet.IPv4)(f[at:]).ChecksumOK() {
		fail("encapsulated to a malformed packet: % x", f[at:at+length])
	}
	if spi, _, ok := Inbound(f[at : at+length]); !ok || spi != out.c.SPI {
		fail("not found to be ESP: % x", f[at:at+length])
	}
	at2, length2, e := in.Decapsulate(0, f, at, length)
	if e != OK {
		fail("decapsulating: %v", e)
	}
	if !bytes.Equal(f[at2:at2+length2], p) {
		fail("changed\nfrom % x\nto   % x", p, f[at2:at2+length2])
	}
	if !untouched(f, at, at+length) {
		fail("decapsulating wrote outside of the packet")
	}
}
