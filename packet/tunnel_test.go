package packet

import (
	"bytes"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/testutil"
)

// The inner packet of every kind of tunnel, over both families, its TCP checksum
// left unfinished, comes out as if its sender had finished it.
func TestInnerChecksumsAreCompleted(t *testing.T) {
	eth := func(t layers.EthernetType) *layers.Ethernet { return testutil.Ethernet(t) }
	tcp := &layers.TCP{SrcPort: 5, DstPort: 6, ACK: true, Window: 7}
	data := gopacket.Payload(bytes.Repeat([]byte("inner"), 20))
	inner := map[string][]byte{
		"IPv4": testutil.Frame(eth(layers.EthernetTypeIPv4), testutil.IPv4("192.168.0.1", "192.168.0.2", 6), tcp, data),
		"IPv6": testutil.Frame(eth(layers.EthernetTypeIPv6), testutil.IPv6("fd99::1", "fd99::2", 6), tcp, data),
	}
	udp := func(port layers.UDPPort) *layers.UDP { return &layers.UDP{SrcPort: 9, DstPort: port} }
	for family, frame := range inner {
		ip, proto, ethertype, l4 := frame[EthernetLen:], layers.IPProtocolIPv4, []byte{8, 0}, IPv4Len
		addrs := ip[12:20]
		if family == "IPv6" {
			proto, ethertype, l4, addrs = layers.IPProtocolIPv6, []byte{0x86, 0xdd}, IPv6Len, ip[8:40]
		}
		for name, c := range map[string]struct {
			proto layers.IPProtocol
			outer gopacket.SerializableLayer
			head  []byte // between the outer L4 header and the inner packet
			frame bool   // the inner packet is a whole frame
		}{
			"IP in IP":          {proto, nil, nil, false},
			"GRE":               {layers.IPProtocolGRE, nil, append([]byte{0, 0}, ethertype...), false},
			"GRE with a key":    {layers.IPProtocolGRE, nil, append(append([]byte{0x20, 0}, ethertype...), 0, 0, 0, 1), false},
			"GRE with Ethernet": {layers.IPProtocolGRE, nil, []byte{0, 0, 0x65, 0x58}, true},
			"VXLAN":             {layers.IPProtocolUDP, udp(4789), []byte{8, 0, 0, 0, 0, 0, 1, 0}, true},
			"VXLAN as Linux":    {layers.IPProtocolUDP, udp(8472), []byte{8, 0, 0, 0, 0, 0, 1, 0}, true},
			"GENEVE":            {layers.IPProtocolUDP, udp(6081), []byte{0, 0, 0x65, 0x58, 0, 0, 1, 0}, true},
			"GENEVE, options":   {layers.IPProtocolUDP, udp(6081), append([]byte{2, 0, 0x65, 0x58, 0, 0, 1, 0}, make([]byte, 8)...), true},
		} {
			payload, at := append(bytes.Clone(c.head), ip...), len(c.head)
			if c.frame {
				payload, at = append(bytes.Clone(c.head), frame...), len(c.head)+EthernetLen
			}
			for outer := range map[string]bool{"4": true, "6": true} {
				var ls []gopacket.SerializableLayer
				if outer == "4" {
					ls = append(ls, eth(layers.EthernetTypeIPv4), testutil.IPv4("10.0.0.1", "10.0.0.2", c.proto))
				} else {
					ls = append(ls, eth(layers.EthernetTypeIPv6), testutil.IPv6("fd00::1", "fd00::2", c.proto))
				}
				start := EthernetLen + map[string]int{"4": IPv4Len, "6": IPv6Len}[outer] + at
				if c.outer != nil {
					ls, start = append(ls, c.outer), start+8
				}
				want := testutil.Frame(append(ls, gopacket.Payload(payload))...)
				got := testutil.Unfinished(want, start+l4+16, addrs, 6, len(ip)-l4)
				if bytes.Equal(got, want) {
					t.Fatal("the test's packet is finished")
				}
				complete := func(p []byte) bool {
					if outer == "4" {
						return CompleteIPv4(p)
					}
					return CompleteIPv6(p, Protocol(c.proto), IPv6Len)
				}
				if !complete(got[EthernetLen:]) || !bytes.Equal(got, want) {
					t.Errorf("%s in %s over IPv%s:\n got  % x\n want % x", family, name, outer, got, want)
				}
				if complete(got[EthernetLen:]) {
					t.Errorf("%s in %s over IPv%s: completed twice", family, name, outer)
				}
				// Cut anywhere, nothing is read or written beyond the end.
				for n := range len(want) - EthernetLen - 40 {
					complete(bytes.Clone(got[EthernetLen : EthernetLen+40+n]))
				}
			}
		}
	}
}
