package pathmtu

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Addresses of the quoted packets.
var (
	us4, them4 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
	us6, them6 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:1::1")
)

// esp is the SPI 0x11223344 and the sequence number 0x55667788.
var esp = []byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}

var udp = []byte{17, 148, 17, 148, 5, 0, 0, 0} // from 4500 to 4500

// needed returns a "fragmentation needed" error about a packet of 1500 bytes.
func needed(mtu uint16, proto byte, behind ...[]byte) []byte {
	b := []byte{3, 4, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu), 0x45, 0, 5, 220, 0, 1, 0x40, 0, 64, proto, 0, 0}
	b = append(append(b, us4.AsSlice()...), them4.AsSlice()...)
	for _, p := range behind {
		b = append(b, p...)
	}
	return b
}

// received returns an ICMP message as Linux reports it.
func received(msg []byte) icmpError {
	return icmpError{msg[0], msg[1], binary.BigEndian.Uint32(msg[4:]), msg[8:]}
}

// tooBig returns a "packet too big" error about a packet of 1500 bytes.
func tooBig(mtu uint32, proto byte, behind ...[]byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{2, 0, 0, 0}, mtu)
	b = append(b, 0x60, 0, 0, 0, 5, 180, proto, 64)
	b = append(append(b, us6.AsSlice()...), them6.AsSlice()...)
	for _, p := range behind {
		b = append(b, p...)
	}
	return b
}

// edit overwrites bytes of b at an offset.
func edit(b []byte, at int, bytes ...byte) []byte {
	copy(b[at:], bytes)
	return b
}

func TestOnlyErrorsQuotingESPAreParsed(t *testing.T) {
	of4 := gateway.TooBig{Src: us4, Dst: them4, SPI: 0x11223344, Sequence: 0x55667788, ID: 1, DF: true, Size: 1500, MTU: 1300}
	of6 := gateway.TooBig{Src: us6, Dst: them6, SPI: 0x11223344, Sequence: 0x55667788, Size: 1500, MTU: 1300}
	inUDP4, inUDP6, withoutDF := of4, of6, of4
	inUDP4.Encap = ipsec.Encap{SrcPort: 4500, DstPort: 4500}
	inUDP6.Encap, withoutDF.DF = inUDP4.Encap, false
	none := gateway.TooBig{}
	for _, c := range []struct {
		rule  string
		parse func(icmpError) (gateway.TooBig, bool)
		msg   []byte
		want  gateway.TooBig // none: ignored
	}{
		{"ESP", parseIPv4, needed(1300, 50, esp), of4},
		{"ESP in UDP", parseIPv4, needed(1300, 17, udp, esp), inUDP4},
		{"longer quote", parseIPv4, needed(1300, 50, esp, make([]byte, 500)), of4},
		{"options", parseIPv4, edit(needed(1300, 50, make([]byte, 4), esp), 8, 0x46), of4},
		{"without DF", parseIPv4, edit(needed(1300, 50, esp), 14, 0), withoutDF},
		{"UDP alone", parseIPv4, needed(1300, 17, udp), none},
		{"ESP header truncated", parseIPv4, needed(1300, 50, esp[:7]), none},
		{"TCP", parseIPv4, needed(1300, 6, esp), none},
		{"a later fragment", parseIPv4, edit(needed(1300, 50, esp), 14, 0, 1), none},
		{"another code", parseIPv4, edit(needed(1300, 50, esp), 1, 3), none},
		{"another type", parseIPv4, edit(needed(1300, 50, esp), 0, 11), none},
		{"header longer than the message", parseIPv4, edit(needed(1300, 50, esp), 8, 0x4f), none},
		{"header shorter than 20 bytes", parseIPv4, edit(needed(1300, 50, esp), 8, 0x44), none},
		{"MTU above 65,535", parseIPv4, edit(needed(1300, 50, esp), 4, 1), none},
		{"truncated", parseIPv4, needed(1300, 50)[:27], none},

		{"IPv6", parseIPv6, tooBig(1300, 50, esp), of6},
		{"IPv6, in UDP", parseIPv6, tooBig(1300, 17, udp, esp), inUDP6},
		{"IPv6, another type", parseIPv6, edit(tooBig(1300, 50, esp), 0, 3), none},
		{"IPv6, ESP header truncated", parseIPv6, tooBig(1300, 50, esp[:7]), none},
		{"IPv6, truncated", parseIPv6, tooBig(1300, 50)[:47], none},
		{"IPv6, MTU above 65,536", parseIPv6, tooBig(1<<31, 50, esp), none},
	} {
		got, ok := c.parse(received(c.msg))
		if ok != (c.want != none) || ok && got != c.want {
			t.Errorf("%s: %+v, %v", c.rule, got, ok)
		}
	}
}

func FuzzErrors(f *testing.F) {
	f.Add(needed(1300, 17, udp, esp))
	f.Add(tooBig(1300, 50, esp))
	f.Fuzz(func(t *testing.T, msg []byte) {
		_, _, _ = decodeExtended(msg)
		if len(msg) < 8 {
			return
		}
		for _, parse := range []func(icmpError) (gateway.TooBig, bool){parseIPv4, parseIPv6} {
			if e, ok := parse(received(msg)); ok && (!e.Src.IsValid() || !e.Dst.IsValid()) {
				t.Errorf("%x is %+v", msg, e)
			}
		}
	})
}
