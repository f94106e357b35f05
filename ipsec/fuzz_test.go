package ipsec

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

// FuzzDecapsulate: no input writes outside of its packet or panics, and packets that are not sealed with
// the key are refused.
func FuzzDecapsulate(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 1))
	c := config(rnd, "aes128gcm16", Tunnel, true)
	out, _ := pair(f, c)
	for _, v4 := range []bool{true, false} {
		p := ipPacket(rnd, v4, 17, 40)
		buf, at, n := encapsulated(f, out, p)
		f.Add(buf[at:at+n], uint8(0))
		f.Add(p, uint8(9))
	}
	f.Fuzz(func(t *testing.T, p []byte, which uint8) {
		if len(p) > 1500 {
			return
		}
		rnd := rand.New(rand.NewPCG(uint64(which), 2))
		c := config(rnd, suite.All[int(which)%len(suite.All)].Name, Mode(which>>4&1), which>>5&1 == 0)
		if which>>6&1 == 1 {
			c.Encap = &Encap{4500, 4500}
		}
		if spi, _, ok := Inbound(p); ok && spi >= 256 {
			c.SPI = spi
		}
		c.Direction = In
		in := newSA(t, c, 1)
		buf := frame(p)
		if _, _, e := in.Decapsulate(0, buf, frameRoom, len(p)); e == OK {
			t.Errorf("accepted % x", p)
		}
		if !untouched(buf, frameRoom, frameRoom+len(p)) {
			t.Error("written outside of the packet")
		}
	})
}

// FuzzEncapsulate: decapsulation restores every encapsulated packet, up to the length in its header.
func FuzzEncapsulate(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for _, v4 := range []bool{true, false} {
		f.Add(ipPacket(rnd, v4, 17, 40), uint8(0))
		f.Add(ipPacket(rnd, v4, 0, 40), uint8(0xff))
	}
	f.Fuzz(func(t *testing.T, p []byte, which uint8) {
		if len(p) > 1500 {
			return
		}
		rnd := rand.New(rand.NewPCG(uint64(which), 4))
		c := config(rnd, suite.All[int(which)%len(suite.All)].Name, Mode(which>>4&1), which>>5&1 == 0)
		if which>>6&1 == 1 {
			c.Encap = &Encap{4500, 4500}
		}
		out, in := pair(t, c)
		buf := frame(p)
		at, n, e := out.Encapsulate(0, buf, frameRoom, len(p))
		if e != OK {
			if !bytes.Equal(buf[frameRoom:frameRoom+len(p)], p) {
				t.Errorf("%v, but changed", e)
			}
			return
		}
		var h header
		h.parse(p)
		at, n, e = in.Decapsulate(0, buf, at, n)
		if h.extend(p[:h.total], true); e == InDummy && c.Mode == Transport && packet.Protocol(p[h.nextAt]) == packet.NoNext {
			return // an empty IPv6 packet equals a dummy packet
		}
		got, want := bytes.Clone(buf[at:at+n]), bytes.Clone(p[:h.total])
		if c.Mode == Transport && h.v4 { // a wrong checksum becomes right
			fixChecksum(want)
		}
		if e != OK || !bytes.Equal(got, want) {
			t.Errorf("%v\n got  % x\n want % x", e, got, want)
		}
	})
}
