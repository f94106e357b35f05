package ipsec

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/packet"
)

func TestInboundFindsESP(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	udp := func(v4 bool, port uint16, payload ...byte) []byte {
		p := ipPacket(rnd, v4, 17, 8+len(payload))
		u := p[ipLen(v4):]
		binary.BigEndian.PutUint16(u, 12345)
		binary.BigEndian.PutUint16(u[2:], port)
		binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
		copy(u[8:], payload)
		return p
	}
	esp := func(v4 bool) []byte {
		p := ipPacket(rnd, v4, 50, 40)
		binary.BigEndian.PutUint32(p[ipLen(v4):], 0x12345678)
		return p
	}
	fragment := esp(true)
	fragment[6] = 0x20
	hop := ipPacket(rnd, false, 0, 60)
	copy(hop[40:], ext6(50))
	binary.BigEndian.PutUint32(hop[48:], 0x12345678)
	inUDP := []byte{0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 9, 9}
	for _, c := range []struct {
		name string
		p    []byte
		at   int // of the SPI, if it is ESP
	}{
		{"IPv4", esp(true), 20},
		{"IPv6", esp(false), 40},
		{"behind hop-by-hop options", hop, 48},
		{"UDP in IPv4", udp(true, 4500, inUDP...), 28},
		{"UDP in IPv6", udp(false, 4500, inUDP...), 48},
		{"UDP to another port", udp(true, 4501, inUDP...), 0},
		{"IKE", udp(true, 4500, 0, 0, 0, 0, 1, 2, 3, 4, 5), 0},
		{"a keepalive", udp(true, 4500, 0xff), 0},
		{"a keepalive in IPv6", udp(false, 4500, 0xff), 0},
		{"one byte that is none", udp(true, 4500, 0xfe), 0},
		{"one byte to another port", udp(true, 500, 0xff), 0},
		{"a fragment", fragment, 0},
		{"TCP", ipPacket(rnd, true, 6, 40), 0},
		{"ESP of 7 bytes", ipPacket(rnd, true, 50, 7), 0},
		{"UDP of 4 bytes", ipPacket(rnd, true, 17, 4), 0},
	} {
		spi, at, ok := Inbound(c.p)
		if ok != (c.at != 0) || ok && (at != c.at || spi != 0x12345678) {
			t.Errorf("%s: got %#x at %d, %v, want it at %d", c.name, spi, at, ok, c.at)
		}
	}
	if got := Destination(udp(true, 1)); !got.Is4() {
		t.Errorf("destination of IPv4: %v", got)
	}
}

// findCommon agrees with find on packets that are truncated, padded or modified.
func TestFastPathFindsTheSameESP(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	found := 0
	for range 300_000 {
		v4 := rnd.IntN(2) == 0
		p := ipPacket(rnd, v4, 50, rnd.IntN(40))
		long := ipLen(v4)
		for range rnd.IntN(3) {
			p[rnd.IntN(long)] = byte(rnd.Uint32())
		}
		if at := long; rnd.IntN(8) == 0 && at+4 <= len(p) {
			clear(p[at : at+4]) // no SPI
		}
		padded := append(p, make([]byte, rnd.IntN(40))...)
		var h header
		if h.parse(padded); h.total > len(padded) || h.total < long { // not valid
			continue
		}
		spi, at := findCommon(padded)
		if spi == 0 {
			continue
		}
		found++
		if s, a, ok := find(padded); !ok || s != spi || a != at {
			t.Fatalf("% x: by findCommon %#x at %d, and %#x at %d, %v", padded, spi, at, s, a, ok)
		}
	}
	if found < 50_000 {
		t.Errorf("%d packets of 300,000 were ESP by findCommon", found)
	}
}

// The first fragment shows its SPI; later ones show only the protocol.
func TestFragmentsOfESPAreFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	make4 := func(proto packet.Protocol, word uint16, l4 ...byte) []byte {
		p := ipPacket(rnd, true, proto, len(l4))
		binary.BigEndian.PutUint16(p[6:], word)
		copy(p[20:], l4)
		return p
	}
	make6 := func(proto byte, word uint16, l4 ...byte) []byte {
		p := ipPacket(rnd, false, 44, 8+len(l4))
		copy(p[40:], []byte{proto, 0, byte(word >> 8), byte(word), 0, 0, 0, 1})
		copy(p[48:], l4)
		return p
	}
	esp := []byte{0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9}
	udp := append([]byte{0x30, 0x39, 4500 >> 8, 4500 & 0xff, 0, 99, 0, 0}, esp...)
	other := append([]byte{0x30, 0x39, 0, 53, 0, 99, 0, 0}, esp...)
	for _, c := range []struct {
		name string
		p    []byte
		want Part
		is   bool
	}{
		{"first", make4(50, 0x2000, esp...), Part{50, true, 0x12345678}, true},
		{"later", make4(50, 0x2001, esp...), Part{50, false, 0}, true},
		{"last", make4(50, 1, esp...), Part{50, false, 0}, true},
		{"whole", make4(50, 0x4000, esp...), Part{}, false},
		{"first of UDP", make4(17, 0x2000, udp...), Part{17, true, 0x12345678}, true},
		{"first of UDP to another port", make4(17, 0x2000, other...), Part{17, true, 0}, true},
		{"first of UDP, only its header", make4(17, 0x2000, udp[:8]...), Part{17, true, 0}, true},
		{"of TCP", make4(6, 0x2000, esp...), Part{}, false},
		{"IPv6, first", make6(50, 1, esp...), Part{50, true, 0x12345678}, true},
		{"IPv6, later", make6(50, 9, esp...), Part{50, false, 0}, true},
		{"IPv6, first of UDP", make6(17, 1, udp...), Part{17, true, 0x12345678}, true},
		{"IPv6, too short", make6(50, 1, esp[:4]...), Part{50, true, 0}, true},
		{"IPv6, of TCP", make6(6, 1, esp...), Part{}, false},
		{"IPv6, whole", ipPacket(rnd, false, 50, 40), Part{}, false},
	} {
		if got, is := Fragment(c.p); got != c.want || is != c.is {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.name, got, is, c.want, c.is)
		}
	}
}
