package icmp

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/packet"
)

// The longest errors, in bytes: what every host can take in without being asked
// (RFC 1812 4.3.2.3, RFC 4443 2.4(c)).
const (
	MaxIPv4 = 576
	MaxIPv6 = 1280
)

const (
	headerLen = 8 // of ICMP and ICMPv6 errors: type, code, checksum, and a word that depends on them

	ttl          = 64   // of the errors themselves, also as hop limit
	precedence   = 0xc0 // internetwork control (RFC 1812 4.3.2.5)
	tosPreserved = 0x1c // the type of service is the offending packet's (the same), but not its ECN bits
	minMTUIPv6   = 1280 // RFC 8200 5
)

// Build writes the error e about a packet into dst and returns its length: a
// whole IP packet from src, an address of this router in the family of the
// offending packet, to that packet's source. The offending packet is quoted, from
// the first byte of its IP header and as it arrived (before its TTL was
// decremented), as far as dst, MaxIPv4 or MaxIPv6, and its own length field
// allow; so the length of dst may tell the MTU of the way back. dst and the
// offending packet do not overlap.
//
// id tells IPv4 errors apart, should they be fragmented (RFC 791 3.2); a counter
// will do. IPv6 has no use for it.
//
// Build returns 0, and has written nothing, when src is of another family, when
// the offending packet has no whole IP header, or when dst is too short to quote
// that header and the 8 bytes after it.
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
	size := min(h.TotalLen(), len(offending)) // what follows is L2 padding
	room := min(MaxIPv4, len(dst)) - packet.IPv4Len - headerLen
	quote := min(size, room)
	if header := h.HeaderLen(); header < packet.IPv4Len || size < header || quote < min(size, header+8) {
		return 0
	}
	p := dst[:packet.IPv4Len+headerLen+quote]
	p[0], p[1] = 0x45, precedence|offending[1]&tosPreserved
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	binary.BigEndian.PutUint16(p[4:], id)
	binary.BigEndian.PutUint16(p[6:], 0) // no fragment, and may become several
	p[8], p[9] = ttl, byte(packet.ICMP)
	binary.BigEndian.PutUint16(p[10:], 0)
	copy(p[12:16], src[:])
	copy(p[16:20], offending[12:16])
	binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:packet.IPv4Len]))

	info := uint32(0)
	switch e.Cause {
	case TooBig: // RFC 1191 4: the lower half of the word
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
	binary.BigEndian.PutUint32(p, 6<<28) // traffic class and flow label are 0, as Linux has them
	binary.BigEndian.PutUint16(p[4:], uint16(len(icmp)))
	p[6], p[7] = byte(packet.ICMPv6), ttl
	copy(p[8:24], src[:])
	copy(p[24:40], offending[8:24])

	info := uint32(0)
	switch e.Cause {
	case TooBig: // a link of less than that must fragment by itself (RFC 8200 5)
		info = max(e.Info, minMTUIPv6)
	case ParameterProblem, UnrecognizedHeader, UnrecognizedOption:
		info = e.Info
	}
	putMessage(icmp, types[e.Cause].v6, info, offending[:quote])
	// The checksum covers a pseudo-header, too: addresses, length, protocol.
	sum := uint32(packet.Sum(p[8:40])) + uint32(len(icmp)) + uint32(packet.ICMPv6) + uint32(packet.Sum(icmp))
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(icmp[2:], ^uint16(sum))
	return len(p)
}

// putMessage writes an ICMP error with a checksum of zero. The message is as
// long as the quote and its header.
func putMessage(m []byte, t typeAndCode, info uint32, quote []byte) {
	m[0], m[1] = t.typ, t.code
	binary.BigEndian.PutUint16(m[2:], 0)
	binary.BigEndian.PutUint32(m[4:], info)
	copy(m[headerLen:], quote)
}
