package ipsec

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/packet"
)

// The UDP checksum is zero in IPv4 and correct in IPv6, by a receiver's own arithmetic.
func TestUDPEncapsulation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, mode := range []Mode{Tunnel, Transport} {
		for _, v4 := range []bool{true, false} {
			for n := range 60 {
				conf := config(rnd, "aes128-sha1", mode, v4)
				conf.Encap = &Encap{SrcPort: 4500, DstPort: 1111}
				out := newSA(t, conf, 1)
				p := ipPacket(rnd, v4, 6, n)
				f, at, length := encapsulated(t, out, p)
				ip := f[at : at+length]
				udp := ip[ipLen(v4):]
				if be32(udp) != 4500<<16|1111 || int(binary.BigEndian.Uint16(udp[4:])) != len(udp) {
					t.Fatalf("UDP header % x for %d bytes", udp[:8], len(udp))
				}
				if v4 {
					if be32(udp[4:])&0xffff != 0 {
						t.Errorf("IPv4: UDP checksum % x, want none", udp[6:8])
					}
					continue
				}
				pseudo := binary.BigEndian.AppendUint32(bytes.Clone(ip[8:40]), uint32(len(udp)))
				pseudo = append(append(pseudo, 0, 0, 0, 17), udp...)
				if packet.Checksum(pseudo) != 0 {
					t.Errorf("IPv6: UDP checksum % x is wrong", udp[6:8])
				}
			}
		}
	}
}

// A computed checksum of zero is sent as all ones (RFC 8200 section 8.1).
func TestUDPChecksumIsNeverZero(t *testing.T) {
	conf := config(rand.New(rand.NewPCG(8, 8)), "null-sha256", Tunnel, false)
	conf.Encap = &Encap{4500, 4500}
	out := newSA(t, conf, 1)
	p := ipPacket(rand.New(rand.NewPCG(9, 9)), true, 17, 0)
	f := frame(p)
	for range 1 << 20 {
		copy(f[frameRoom:], p)
		at, _, e := out.Encapsulate(0, f, frameRoom, len(p))
		switch sum := binary.BigEndian.Uint16(f[at+46:]); {
		case e != OK || sum == 0:
			t.Fatalf("checksum %#x, %v", sum, e)
		case sum == 0xffff:
			return
		}
	}
	t.Error("no checksum came out as zero")
}

// The length in a UDP header is not trusted: beyond the packet it is refused; a shorter one ends the ESP
// packet, as in Linux.
func TestUDPLengths(t *testing.T) {
	rnd := rand.New(rand.NewPCG(10, 10))
	conf := config(rnd, "aes128gcm16", Tunnel, true)
	conf.Encap = &Encap{4500, 4500}
	p := ipPacket(rnd, true, 17, 30)
	setTOS(p, 0)
	for _, c := range []struct {
		length func(udp int) int
		want   Error
	}{
		{func(n int) int { return n }, OK},
		{func(n int) int { return n + 1 }, InHdrError},
		{func(int) int { return 65535 }, InHdrError},
		{func(int) int { return 0 }, InHdrError},
		{func(int) int { return 7 }, InHdrError},
		{func(int) int { return 15 }, InHdrError},
		{func(int) int { return 16 }, InStateProtoError},
		{func(n int) int { return n - 4 }, InStateProtoError},
	} {
		out, in := pair(t, conf)
		f, at, n := encapsulated(t, out, p)
		length := c.length(n - 20)
		binary.BigEndian.PutUint16(f[at+24:], uint16(length))
		if _, _, e := in.Decapsulate(0, f, at, n); e != c.want {
			t.Errorf("UDP length %d of %d: got %v, want %v", length, n-20, e, c.want)
		}
	}
	out, in := pair(t, conf)
	f, at, n := encapsulated(t, out, p)
	binary.BigEndian.PutUint16(f[at+2:], uint16(n+9)) // 9 bytes behind the datagram
	fixChecksum(f[at:])
	if at, n, e := in.Decapsulate(0, f, at, n+9); e != OK || !bytes.Equal(f[at:at+n], p) {
		t.Errorf("bytes behind the datagram: %v\n got  % x\n want % x", e, f[at:at+n], p)
	}
}
