package icmp

import (
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/internal/testutil"
)

func about4(src, dst string, proto layers.IPProtocol, l4 ...byte) []byte {
	return bare(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), testutil.IPv4(src, dst, proto), gopacket.Payload(l4)))
}

func about6(src, dst string, next layers.IPProtocol, rest ...byte) []byte {
	return bare(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv6), testutil.IPv6(src, dst, next), gopacket.Payload(rest)))
}

func edit4(at int, with ...byte) []byte {
	return bare(testutil.Edit(offendingFrame4(20), at, with...))
}

const (
	silent = true
	told   = false
)

func TestSuppressedIPv4(t *testing.T) {
	const udp, icmp = layers.IPProtocolUDP, layers.IPProtocolICMPv4
	for _, c := range []struct {
		name  string
		p     []byte
		group bool
		want  bool
	}{
		{"a plain packet", offending4(20), false, told},
		{"one that came as a link's broadcast or multicast", offending4(20), true, silent},
		{"a first fragment", edit4(6, 0x20, 0), false, told},
		{"a later fragment", edit4(6, 0x20, 1), false, silent},
		{"a last fragment", edit4(6, 0x1f, 0xff), false, silent},
		{"do not fragment is no fragment", edit4(6, 0x40, 0), false, told},
		{"from 0.0.0.0", about4("0.0.0.0", "10.2.0.2", udp), false, silent},
		{"from network 0", about4("0.1.2.3", "10.2.0.2", udp), false, silent},
		{"from loopback", about4("127.0.0.1", "10.2.0.2", udp), false, silent},
		{"from multicast", about4("224.0.0.1", "10.2.0.2", udp), false, silent},
		{"from reserved", about4("240.0.0.1", "10.2.0.2", udp), false, silent},
		{"from broadcast", about4("255.255.255.255", "10.2.0.2", udp), false, silent},
		{"from the last unicast address", about4("223.255.255.255", "10.2.0.2", udp), false, told},
		{"to multicast", about4("10.1.0.2", "224.0.0.251", udp), false, silent},
		{"to broadcast", about4("10.1.0.2", "255.255.255.255", udp), false, silent},
		{"to loopback", about4("10.1.0.2", "127.0.0.1", udp), false, silent},
		{"an ICMP packet without a type", about4("10.1.0.2", "10.2.0.2", icmp), false, silent},
		{"an ICMP packet with a type in its padding", append(about4("10.1.0.2", "10.2.0.2", icmp), 8, 0, 0, 0), false, silent},
		{"half a header", offending4(20)[:19], false, silent},
		{"no packet", nil, false, silent},
		{"another version", []byte{0x50, 0, 0}, false, silent},
	} {
		for _, cause := range []Cause{TimeExceeded, TooBig, UnrecognizedOption} { // no exceptions
			if got := Suppressed(c.p, cause, c.group); got != c.want {
				t.Errorf("%s, %v: %v, want %v", c.name, cause, got, c.want)
			}
		}
	}
	queries := map[byte]bool{0: true, 8: true, 9: true, 10: true, 13: true, 14: true, 15: true, 16: true, 17: true, 18: true, 42: true, 43: true}
	for typ := range 256 {
		p := about4("10.1.0.2", "10.2.0.2", icmp, byte(typ), 0, 0, 0, 0, 0, 0, 0)
		if got := Suppressed(p, TimeExceeded, false); got == queries[byte(typ)] {
			t.Errorf("about ICMP type %d: %v", typ, got)
		}
	}
}

func TestSuppressedIPv6(t *testing.T) {
	const udp, icmp = layers.IPProtocolUDP, layers.IPProtocolICMPv6
	frag := func(next layers.IPProtocol, offset byte) []byte {
		return []byte{byte(next), 0, 0, offset, 0, 0, 0, 1, 1, 2, 3, 4}
	}
	for _, c := range []struct {
		name   string
		p      []byte
		group  bool
		want   bool // about time exceeded
		tooBig bool // about packet too big, and unrecognized option
	}{
		{"a plain packet", offending6(20), false, told, told},
		{"one that came as a link's broadcast or multicast", offending6(20), true, silent, told},
		{"to multicast", about6("fd01::2", "ff0e::1", udp), false, silent, told},
		{"from ::", about6("::", "fd02::2", udp), false, silent, silent},
		{"from loopback", about6("::1", "fd02::2", udp), false, silent, silent},
		{"from multicast", about6("ff02::1", "fd02::2", udp), false, silent, silent},
		{"from a link-local address", about6("fe80::1", "fd02::2", udp), false, told, told},
		{"a first fragment", about6("fd01::2", "fd02::2", layers.IPProtocolIPv6Fragment, frag(udp, 1)...), false, told, told},
		{"a later fragment", about6("fd01::2", "fd02::2", layers.IPProtocolIPv6Fragment, frag(udp, 8)...), false, told, told},
		{"a first fragment of an ICMPv6 error", about6("fd01::2", "fd02::2", layers.IPProtocolIPv6Fragment, frag(icmp, 1)...), false, silent, silent},
		{"a later fragment of ICMPv6, whose type is not in it", about6("fd01::2", "fd02::2", layers.IPProtocolIPv6Fragment, frag(icmp, 8)...), false, told, told},
		{"an error behind an extension header", about6("fd01::2", "fd02::2", layers.IPProtocolIPv6Destination,
			byte(icmp), 0, 1, 4, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0), false, silent, silent},
		{"an echo behind an extension header", about6("fd01::2", "fd02::2", layers.IPProtocolIPv6Destination,
			byte(icmp), 0, 1, 4, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0), false, told, told},
		{"a chain that is cut off", about6("fd01::2", "fd02::2", layers.IPProtocolIPv6Destination, byte(icmp), 9), false, silent, silent},
		{"an ICMPv6 packet without a type", about6("fd01::2", "fd02::2", icmp), false, silent, silent},
		{"an ICMPv6 packet with a type in its padding", append(about6("fd01::2", "fd02::2", icmp), 128, 0, 0, 0), false, silent, silent},
		{"half a header", offending6(20)[:39], false, silent, silent},
	} {
		for cause, want := range map[Cause]bool{TimeExceeded: c.want, UnrecognizedHeader: c.want, TooBig: c.tooBig, UnrecognizedOption: c.tooBig} {
			if got := Suppressed(c.p, cause, c.group); got != want {
				t.Errorf("%s, %v: %v, want %v", c.name, cause, got, want)
			}
		}
	}
	for typ := range 256 {
		p := about6("fd01::2", "fd02::2", icmp, byte(typ), 0, 0, 0, 0, 0, 0, 0)
		want := typ < 128 || typ == 137 // errors, known or not, and redirects
		for cause := range numCauses {
			if got := Suppressed(p, cause, false); got != want {
				t.Errorf("%v about ICMPv6 type %d: %v, want %v", cause, typ, got, want)
			}
		}
	}
}
