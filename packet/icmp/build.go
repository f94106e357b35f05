package icmp

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/packet"
)

// Longest errors in bytes: the size that every host accepts (RFC 1812 section 4.3.2.3, RFC 4443
// section 2.4(c)).
const (
	MaxIPv4 = 576
	MaxIPv6 = 1280
)

const (
	headerLen = 8 // ICMP and ICMPv6 error: type, code, checksum, and a word that depends on them

	ttl          = 64   // TTL or hop limit of errors
	precedence   = 0xc0 // internetwork control (RFC 1812 section 4.3.2.5)
	tosPreserved = 0x1c // copied from the offending packet (same section), without ECN
	minMTUIPv6   = 1280 // RFC 8200 5
)

// Build writes the error e about a packet to dst and returns its length: a whole IP packet from src, an
// address of this router in the packet's family, to the packet's source. It quotes the offending packet,
// from its IP header on and as received (before the TTL was decremented), up to the length of dst,
// MaxIPv4 or MaxIPv6, and the packet's own length; so the length of dst can be the MTU of the way back.
// dst and the offending packet must not overlap.
//
// id identifies IPv4 errors that are fragmented (RFC 791 section 3.2), such as a counter. IPv6 ignores it.
//
// Build returns 0 and writes nothing if src is of another family, if the offending packet has no whole
// IP header, or if dst cannot hold that header and the 8 bytes behind it.
func Build(dst, offending []byte, e Error, src netip.Addr, id uint16) int {
	if len(offending) == 0 || e.Cause >= numCauses {
		return 0
	}
	switch version := offending[0] >> 4; {
	case version == 4 && src.Is4():
		return buildIPv4(dst, offending, e, src.As4(), id)
	case version == 6 && src.Is6():
		return buildIPv6(dst, offending, e, src.As16())
	}
	return 0
}

func buildIPv4(dst, offending []byte, e Error, src [4]byte, id uint16) int {
	if len(offending) < packet.IPv4Len {
		return 0
	}
	h := (*packet.IPv4)(offending)
	size := min(h.TotalLen(), len(offending)) // excludes Ethernet padding
	room := min(MaxIPv4, len(dst)) - packet.IPv4Len - headerLen
	quote := min(size, room)
	if header := h.HeaderLen(); header < packet.IPv4Len || size < header || quote < min(size, header+8) {
		return 0
	}
	p := dst[:packet.IPv4Len+headerLen+quote]
	p[0], p[1] = 0x45, precedence|offending[1]&tosPreserved
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	binary.BigEndian.PutUint16(p[4:], id)
	binary.BigEndian.PutUint16(p[6:], 0) // not a fragment, DF clear
	p[8], p[9] = ttl, byte(packet.ICMP)
	binary.BigEndian.PutUint16(p[10:], 0)
	copy(p[12:16], src[:])
	copy(p[16:20], offending[12:16])
	binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:packet.IPv4Len]))

	info := uint32(0)
	switch e.Cause {
	case TooBig: // RFC 1191 section 4: lower half of the word
		info = min(e.Info, 0xffff)
	case ParameterProblem, UnrecognizedHeader, UnrecognizedOption:
		info = e.Info << 24
	}
	icmp := p[packet.IPv4Len:]
	putMessage(icmp, types[e.Cause].v4, info, offending[:quote])
	binary.BigEndian.PutUint16(icmp[2:], packet.Checksum(icmp))
	return len(p)
}

func buildIPv6(dst, offending []byte, e Error, src [16]byte) int {
	if len(offending) < packet.IPv6Len {
		return 0
	}
	size := min(packet.IPv6Len+(*packet.IPv6)(offending).PayloadLen(), len(offending))
	room := min(MaxIPv6, len(dst)) - packet.IPv6Len - headerLen
	quote := min(size, room)
	if quote < min(size, packet.IPv6Len+8) {
		return 0
	}
	p := dst[:packet.IPv6Len+headerLen+quote]
	icmp := p[packet.IPv6Len:]
	binary.BigEndian.PutUint32(p, 6<<28) // traffic class and flow label 0, as in Linux
	binary.BigEndian.PutUint16(p[4:], uint16(len(icmp)))
	p[6], p[7] = byte(packet.ICMPv6), ttl
	copy(p[8:24], src[:])
	copy(p[24:40], offending[8:24])

	info := uint32(0)
	switch e.Cause {
	case TooBig: // a link with a smaller MTU must fragment by itself (RFC 8200 section 5)
		info = max(e.Info, minMTUIPv6)
	case ParameterProblem, UnrecognizedHeader, UnrecognizedOption:
		info = e.Info
	}
	putMessage(icmp, types[e.Cause].v6, info, offending[:quote])
	// The checksum includes the pseudo-header: addresses, length, protocol.
	sum := uint32(packet.Sum(p[8:40])) + uint32(len(icmp)) + uint32(packet.ICMPv6) + uint32(packet.Sum(icmp))
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(icmp[2:], ^uint16(sum))
	return len(p)
}

// putMessage writes an ICMP error with checksum 0. p is as long as the header and the quotation.
func putMessage(m []byte, t typeAndCode, info uint32, quote []byte) {
	m[0], m[1] = t.typ, t.code
	binary.BigEndian.PutUint16(m[2:], 0)
	binary.BigEndian.PutUint32(m[4:], info)
	copy(m[headerLen:], quote)
}
