package icmp

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Suppressed reports whether no error may be sent about a packet, lest errors
// beget errors or one packet many (RFC 1812 4.3.2.7, RFC 4443 2.4(e)). The packet
// starts with its IP header. group says that it arrived as a broadcast or
// multicast of its link.
//
// That an address is some subnet's broadcast or anycast address is not seen here:
// the routing table knows.
func Suppressed(offending []byte, c Cause, group bool) bool {
	if len(offending) == 0 {
		return true
	}
	switch offending[0] >> 4 {
	case 4:
		return suppressedIPv4(offending, group)
	case 6:
		return suppressedIPv6(offending, c, group)
	}
	return true
}

func suppressedIPv4(p []byte, group bool) bool {
	if len(p) < packet.IPv4Len {
		return true
	}
	h := (*packet.IPv4)(p)
	header := h.HeaderLen()
	switch {
	case group, h.FragmentOffset() != 0:
		return true
	case !unicastIPv4(h.Src()), !unicastIPv4(h.Dst()):
		return true
	case h.Protocol() == packet.ICMP:
		return header >= min(h.TotalLen(), len(p)) || !queryIPv4(p[header]) // beyond is L2 padding
	}
	return false
}

// unicastIPv4 reports whether an address can be a host's on a wire: not "this
// network", loopback, multicast, reserved or broadcast (RFC 1812 4.2.2.11, 5.3.7).
func unicastIPv4(addr uint32) bool {
	first := addr >> 24
	return first != 0 && first != 127 && first < 224
}

// queryIPv4 reports whether an ICMP type is known to be no error: echo, router
// discovery, timestamp, information, address mask and extended echo. What is not
// known may be an error.
func queryIPv4(t uint8) bool {
	const queries = 1<<0 | 1<<8 | 1<<9 | 1<<10 | 1<<13 | 1<<14 | 1<<15 | 1<<16 | 1<<17 | 1<<18 | 1<<42 | 1<<43
	return uint64(queries)>>t&1 != 0
}

func suppressedIPv6(p []byte, c Cause, group bool) bool {
	if len(p) < packet.IPv6Len {
		return true
	}
	if !unicastIPv6(p[8:24]) {
		return true
	}
	// Path MTU discovery works for multicast, and whoever sends an option that asks
	// for an error gets it (RFC 4443 2.4(e.3)).
	if (group || p[24] == 0xff) && c != TooBig && c != UnrecognizedOption {
		return true
	}
	// Fragments beyond the first are no exception in IPv6, and errors are too short
	// to be fragmented.
	p = p[:min(packet.IPv6Len+(*packet.IPv6)(p).PayloadLen(), len(p))] // beyond is L2 padding
	l4, ok := packet.FindL4(p)
	if !ok {
		return true // what cannot be followed may lead to an error
	}
	if l4.Proto == packet.ICMPv6 && !l4.Later {
		const redirect = 137
		return l4.Offset >= len(p) || p[l4.Offset] < 128 || p[l4.Offset] == redirect
	}
	return false
}

// unicastIPv6 reports whether an address can be a node's on a wire: not
// unspecified, loopback or multicast.
func unicastIPv6(addr []byte) bool {
	high, low := binary.BigEndian.Uint64(addr), binary.BigEndian.Uint64(addr[8:])
	return addr[0] != 0xff && (high != 0 || low > 1)
}
