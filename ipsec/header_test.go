package ipsec

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/packet"
)

// setTOS sets DSCP and ECN of a packet.
func setTOS(p []byte, tos byte) {
	if p[0]>>4 == 6 {
		binary.BigEndian.PutUint16(p, 6<<12|uint16(tos)<<4|uint16(p[1]&0xf))
		return
	}
	p[1] = tos
	fixChecksum(p)
}

func fixChecksum(p []byte) {
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:int(p[0]&0xf)*4]))
}

func tos(p []byte) byte {
	var h header
	h.parse(p)
	return h.tos
}

// RFC 6040 figures 3 and 4, from their text.
func TestECNPassesThroughTunnels(t *testing.T) {
	const notECT, ect1, ect0, ce, drop = 0, 1, 2, 3, 4
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, row := range []struct {
		inner byte
		want  map[byte]byte // by the outer codepoint
	}{
		{notECT, map[byte]byte{notECT: notECT, ect0: notECT, ect1: notECT, ce: drop}},
		{ect0, map[byte]byte{notECT: ect0, ect0: ect0, ect1: ect1, ce: ce}},
		{ect1, map[byte]byte{notECT: ect1, ect0: ect1, ect1: ect1, ce: ce}},
		{ce, map[byte]byte{notECT: ce, ect0: ce, ect1: ce, ce: ce}},
	} {
		for outer, want := range row.want {
			for families := range 4 {
				outer4, inner4 := families&1 == 0, families&2 == 0
				out, in := pair(t, config(rnd, "aes128gcm16", Tunnel, outer4))
				p := ipPacket(rnd, inner4, 17, 40)
				dscp := byte(rnd.IntN(64)) << 2
				setTOS(p, dscp|row.inner)
				f, at, n := encapsulated(t, out, p)
				if got := tos(f[at:]); got != dscp|row.inner {
					t.Errorf("inner %#02x: outer got %#02x, want the same", dscp|row.inner, got)
				}
				setTOS(f[at:], outer) // on the way: congestion, and another DSCP
				at, n, e := in.Decapsulate(0, f, at, n)
				if want == drop {
					if e != InECNError {
						t.Errorf("inner %d, outer %d: got %v, want %v", row.inner, outer, e, InECNError)
					}
					continue
				}
				setTOS(p, dscp|want)
				if e != OK || !bytes.Equal(f[at:at+n], p) {
					t.Errorf("inner %d, outer %d, IPv4 %v: %v\n got  % x\n want % x", row.inner, outer, inner4, e, f[at:at+n], p)
				}
			}
		}
	}
}

func TestOuterIPv4Header(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for _, c := range []struct {
		policy         DFPolicy
		inner4, df, on bool
	}{
		{CopyDF, true, true, true}, {CopyDF, true, false, false}, {CopyDF, false, false, true},
		{SetDF, true, false, true}, {SetDF, false, false, true},
		{ClearDF, true, true, false}, {ClearDF, false, false, false},
	} {
		conf := config(rnd, "aes128gcm16", Tunnel, true)
		conf.DF = c.policy
		out := newSA(t, conf, 1)
		var ids []uint16
		for range 2 {
			p := ipPacket(rnd, c.inner4, 17, 40)
			if c.inner4 {
				p[6] = 0
				if c.df {
					p[6] = 0x40
				}
				fixChecksum(p)
			}
			f, at, n := encapsulated(t, out, p)
			ip := gopacket.NewPacket(f[at:at+n], layers.LayerTypeIPv4, gopacket.Default).NetworkLayer().(*layers.IPv4)
			if on := ip.Flags&layers.IPv4DontFragment != 0; on != c.on {
				t.Errorf("DF %v, inner IPv4 %v with %v: outer %v, want %v", c.policy, c.inner4, c.df, on, c.on)
			}
			if ip.TTL != 64 || ip.IHL != 5 || ip.Protocol != 50 || int(ip.Length) != n || ip.FragOffset != 0 ||
				ip.SrcIP.String() != outer4[0].String() || ip.DstIP.String() != outer4[1].String() || !(*packet.IPv4)(f[at:]).ChecksumOK() {
				t.Errorf("outer header is %+v", ip)
			}
			ids = append(ids, ip.Id)
		}
		if ids[0] == ids[1] {
			t.Errorf("two packets have ID %d", ids[0])
		}
	}
}

func TestOuterIPv6Header(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	for _, inner4 := range []bool{true, false} {
		out := newSA(t, config(rnd, "aes128gcm16", Tunnel, false), 1)
		p := ipPacket(rnd, inner4, 17, 40)
		want := uint32(0) // IPv4 has no flow label
		if !inner4 {
			want = be32(p) & 0xfffff
		}
		f, at, n := encapsulated(t, out, p)
		ip := gopacket.NewPacket(f[at:at+n], layers.LayerTypeIPv6, gopacket.Default).NetworkLayer().(*layers.IPv6)
		if ip.HopLimit != 64 || ip.NextHeader != 50 || int(ip.Length) != n-40 || ip.FlowLabel != want || ip.TrafficClass != tos(p) ||
			ip.SrcIP.String() != outer6[0].String() || ip.DstIP.String() != outer6[1].String() {
			t.Errorf("outer header is %+v", ip)
		}
	}
}

// ESP in fragments must be reassembled first.
func TestFragmentsAreNotDecapsulated(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 11))
	for _, flags := range []uint16{0x2000, 0x2001, 0x0001} {
		out, in := pair(t, config(rnd, "aes128gcm16", Tunnel, true))
		p := ipPacket(rnd, true, 17, 30)
		f, at, n := encapsulated(t, out, p)
		binary.BigEndian.PutUint16(f[at+6:], flags)
		fixChecksum(f[at:])
		if _, _, e := in.Decapsulate(0, f, at, n); e != InHdrError {
			t.Errorf("flags and offset %#x: got %v, want %v", flags, e, InHdrError)
		}
	}
}

// ext6 returns an extension header of 8 bytes.
func ext6(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

// Headers in front of ESP in transport mode are kept and restored.
func TestTransportModeKeepsHeadersInFront(t *testing.T) {
	const hop, dest, route = 0, 60, 43
	rnd := rand.New(rand.NewPCG(5, 5))
	for _, c := range []struct {
		name  string
		chain []byte
		front int // headers before ESP
	}{
		{"no extension headers", nil, 0},
		{"hop-by-hop", []byte{hop}, 1},
		{"destination options", []byte{dest}, 1},
		{"hop-by-hop, destination, routing", []byte{hop, dest, route}, 3},
		{"destination behind routing is protected", []byte{hop, dest, route, dest}, 3},
	} {
		t.Run("IPv6: "+c.name, func(t *testing.T) {
			p := ipPacket(rnd, false, 17, 8*len(c.chain)+30)
			at := 6
			for i, kind := range c.chain {
				p[at] = kind
				at = 40 + 8*i
				copy(p[at:], ext6(17))
			}
			out, in := pair(t, config(rnd, "aes128-sha256", Transport, false))
			f, start, n := encapsulated(t, out, p)
			if _, esp, ok := Inbound(f[start : start+n]); !ok || esp != 40+8*c.front {
				t.Errorf("ESP at %d (%v), want %d", esp, ok, 40+8*c.front)
			}
			start, n, e := in.Decapsulate(0, f, start, n)
			if e != OK || !bytes.Equal(f[start:start+n], p) {
				t.Errorf("%v\n got  % x\n want % x", e, f[start:start+n], p)
			}
		})
	}
	t.Run("IPv4 options", func(t *testing.T) {
		p := ipPacket(rnd, true, 17, 50)
		p[0] = 0x47 // 8 bytes of options
		fixChecksum(p)
		out, in := pair(t, config(rnd, "aes128gcm16", Transport, true))
		f := frame(p)
		start, n, e := out.Encapsulate(0, f, frameRoom, len(p))
		if e != OK || packet.Checksum(f[start:start+28]) != 0 || !bytes.Equal(f[start+20:start+28], p[20:28]) {
			t.Fatalf("%v: header % x", e, f[start:start+28])
		}
		start, n, e = in.Decapsulate(0, f, start, n)
		if e != OK || !bytes.Equal(f[start:start+n], p) {
			t.Errorf("%v\n got  % x\n want % x", e, f[start:start+n], p)
		}
	})
}

// Ethernet padding is not sent, and packets that do not match the SA are refused.
func TestPacketsThatDoNotMatchTheSA(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	fragment4 := ipPacket(rnd, true, 17, 40)
	fragment4[6] = 0x20
	fixChecksum(fragment4)
	fragment6 := ipPacket(rnd, false, 44, 40)
	chain6 := ipPacket(rnd, false, 0, 40) // hop-by-hop longer than the packet
	chain6[41] = 9
	cut := ipPacket(rnd, true, 17, 40)
	cut[3] = 200
	version := ipPacket(rnd, true, 17, 40)
	version[0] = 0x55
	large := ipPacket(rnd, true, 17, 1790)
	for _, c := range []struct {
		name string
		mode Mode
		v4   bool
		p    []byte
		want Error
	}{
		{"an IPv4 fragment in transport mode", Transport, true, fragment4, OutStateModeError},
		{"an IPv4 fragment in a tunnel", Tunnel, true, fragment4, OK},
		{"an IPv6 fragment in transport mode", Transport, false, fragment6, OutStateModeError},
		{"an IPv6 fragment in a tunnel", Tunnel, true, fragment6, OK},
		{"a broken chain in transport mode", Transport, false, chain6, OutStateModeError},
		{"the other family in transport mode", Transport, false, fragment4, OutStateModeError},
		{"a length beyond the packet", Tunnel, true, cut, OutStateModeError},
		{"IP version 5", Tunnel, true, version, OutStateModeError},
		{"half a header", Tunnel, true, cut[:19], OutStateModeError},
		{"nothing", Tunnel, true, nil, OutStateModeError},
		{"more than the frame has room for", Tunnel, true, large, OutError},
	} {
		out := newSA(t, config(rnd, "aes128gcm16", c.mode, c.v4), 1)
		f := frame(c.p)
		before := bytes.Clone(f)
		_, _, e := out.Encapsulate(0, f, frameRoom, len(c.p))
		if e != c.want {
			t.Errorf("%s: got %v, want %v", c.name, e, c.want)
		}
		if e != OK && (!bytes.Equal(f, before) || out.Sequence() != 0) {
			t.Errorf("%s: a refused packet was changed, or cost a number", c.name)
		}
	}
	out, in := pair(t, config(rnd, "aes128gcm16", Tunnel, true))
	p := ipPacket(rnd, true, 17, 10)
	f := frame(append(bytes.Clone(p), make([]byte, 16)...))
	at, n, _ := out.Encapsulate(0, f, frameRoom, len(p)+16)
	if n > len(p)+out.Overhead() {
		t.Errorf("Ethernet padding was sent: %d bytes", n)
	}
	if at, n, e := in.Decapsulate(0, f, at, n); e != OK || !bytes.Equal(f[at:at+n], p) {
		t.Errorf("Ethernet padding: %v, % x, want % x", e, f[at:at+n], p)
	}
}

// At every distance from the frame's ends a packet is encrypted within them or refused.
func TestFrameBordersHold(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, name := range []string{"aes128gcm16", "aes256-sha512"} {
		for _, mode := range []Mode{Tunnel, Transport} {
			conf := config(rnd, name, mode, true)
			conf.Encap = &Encap{4500, 4500}
			out := newSA(t, conf, 1)
			p := ipPacket(rnd, true, 17, 33)
			fits := 0
			for front := range 80 {
				for back := range 80 {
					f := bytes.Repeat([]byte{canary}, front+len(p)+back)
					copy(f[front:], p)
					at, n, e := out.Encapsulate(0, f, front, len(p))
					switch e {
					case OK:
						fits++
						if at < 0 || at+n > len(f) || !untouched(f, at, at+n) {
							t.Fatalf("room of %d and %d: result at %d to %d, or written beyond", front, back, at, at+n)
						}
					case OutError:
						if !untouched(f, front, front+len(p)) {
							t.Fatalf("room of %d and %d: refused, and changed", front, back)
						}
					default:
						t.Fatalf("room of %d and %d: %v", front, back, e)
					}
				}
			}
			if fits == 0 {
				t.Errorf("%s, %v: never fits", name, mode)
			}
		}
	}
}
