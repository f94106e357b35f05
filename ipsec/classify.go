package ipsec

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/packet"
)

// PortNATT is the UDP port of IKE and of encapsulated ESP (RFC 3948).
const PortNATT = 4500

// Inbound finds ESP in p, a valid IP packet to an address of ours, directly in IP or in UDP to
// PortNATT (RFC 3948). espOffset is the offset of the SPI. It is not ok for other packets:
// fragments, which are reassembled first, IKE (four zero bytes in place of an SPI) and keepalives.
func Inbound(p []byte) (spi uint32, espOffset int, ok bool) {
	if cannotBeESP(p) {
		return 0, 0, false
	}
	if spi, espOffset = findCommon(p); spi != 0 {
		return spi, espOffset, true
	}
	return find(p)
}

// InboundCommon is Inbound for the common cases: ESP behind an IP header without options, directly or in UDP.
// spi is 0 for others. p extends to the end of the packet or further, and may be invalid.
func InboundCommon(p []byte) (spi uint32, espOffset int) {
	if spi, espOffset = findCommon(p); spi != 0 || len(p) < packet.IPv6Len+udpLen+espLen {
		return spi, espOffset
	}
	switch ip4, ip6 := (*packet.IPv4)(p), (*packet.IPv6)(p); {
	case p[0] == 0x45 && ip4.Protocol() == packet.UDP && !ip4.Fragmented():
		espOffset = packet.IPv4Len + udpLen
	case p[0]>>4 == 6 && ip6.NextHeader() == packet.UDP:
		espOffset = packet.IPv6Len + udpLen
	default:
		return 0, 0
	}
	if binary.BigEndian.Uint16(p[espOffset-6:]) != PortNATT {
		return 0, 0
	}
	return binary.BigEndian.Uint32(p[espOffset:]), espOffset
}

// find implements Inbound for all packets.
func find(p []byte) (spi uint32, espOffset int, ok bool) {
	var h header
	if !h.parse(p) || !h.extend(p[:h.total], false) || h.fragment {
		return 0, 0, false
	}
	espOffset = h.len
	switch packet.Protocol(p[h.nextAt]) {
	case protoESP:
	case packet.UDP:
		if espOffset+udpLen > h.total || binary.BigEndian.Uint16(p[espOffset+2:]) != PortNATT {
			return 0, 0, false
		}
		espOffset += udpLen
	default:
		return 0, 0, false
	}
	if espOffset+espLen > h.total {
		return 0, 0, false
	}
	spi = binary.BigEndian.Uint32(p[espOffset:])
	return spi, espOffset, spi != 0
}

// findCommon finds ESP directly behind an IP header without options, the common case. p may be
// shorter than the packet. It returns SPI 0 if it finds none.
func findCommon(p []byte) (spi uint32, espOffset int) {
	const plain = 0x45                  // no options
	if len(p) < packet.IPv6Len+espLen { // shorter than any whole ESP
		return 0, 0
	}
	ip4, ip6 := (*packet.IPv4)(p), (*packet.IPv6)(p)
	switch {
	case p[0] == plain && ip4.Protocol() == protoESP && !ip4.Fragmented() && ip4.TotalLen() >= packet.IPv4Len+espLen:
		espOffset = packet.IPv4Len
	case p[0]>>4 == 6 && ip6.NextHeader() == protoESP && ip6.PayloadLen() >= espLen:
		espOffset = packet.IPv6Len
	default:
		return 0, 0
	}
	return binary.BigEndian.Uint32(p[espOffset:]), espOffset
}

// cannotBeESP reports whether the first header alone shows that p contains no ESP, the case of
// most packets.
func cannotBeESP(p []byte) bool {
	const plain, least = 0x45, 24 // no options; the ports are there
	if len(p) < least {
		return false
	}
	proto, at := p[9], 20
	if p[0] != plain {
		if p[0]>>4 != 6 || len(p) < 44 {
			return false
		}
		proto, at = p[6], 40
	}
	switch packet.Protocol(proto) {
	case packet.TCP, packet.ICMP, packet.ICMPv6:
		return true
	case packet.UDP:
		return binary.BigEndian.Uint16(p[at+2:]) != PortNATT
	}
	return false
}

// Part describes a fragment that may be a part of an ESP packet.
type Part struct {
	Proto packet.Protocol // ESP or UDP
	First bool
	SPI   uint32 // in the first fragment, as it is or in UDP to PortNATT; else 0
}

// Fragment reports whether p, a valid IP packet, is a fragment of ESP, or of UDP that may carry ESP.
func Fragment(p []byte) (f Part, is bool) {
	at, size := 0, 0
	if p[0]>>4 == 4 {
		ip := (*packet.IPv4)(p)
		f.Proto, f.First, is = ip.Protocol(), ip.FragmentOffset() == 0, ip.Fragmented()
		at, size = ip.HeaderLen(), ip.TotalLen()
	} else {
		size = packet.IPv6Len + (*packet.IPv6)(p).PayloadLen()
		l4, whole := packet.FindL4(p[:size])
		f.Proto, f.First, is = l4.Proto, !l4.Later, whole && l4.Fragment
		at = l4.Offset
	}
	switch {
	case !is || f.Proto != protoESP && f.Proto != packet.UDP:
		return Part{}, false
	case !f.First || at+espLen > size:
		return f, true
	case f.Proto == packet.UDP:
		if binary.BigEndian.Uint16(p[at+2:]) != PortNATT {
			return f, true
		}
		at += udpLen
	}
	if at+espLen <= size {
		f.SPI = binary.BigEndian.Uint32(p[at:])
	}
	return f, true
}

// Destination returns the destination address of p, a valid IP packet, for SAD.Lookup.
func Destination(p []byte) netip.Addr {
	if p[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(p[16:20]))
	}
	return netip.AddrFrom16([16]byte(p[24:40]))
}
