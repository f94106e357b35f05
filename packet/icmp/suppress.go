package icmp

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Suppressed reports whether no error may be sent about a packet, because errors must not cause errors,
// nor one packet many (RFC 1812 section 4.3.2.7, RFC 4443 section 2.4(e)). p starts with the IP header.
// group means that the frame was link-layer broadcast or multicast.
//
// It does not know subnet broadcast and anycast addresses: the routing table does.
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
		return header >= min(h.TotalLen(), len(p)) || !queryIPv4(p[header]) // Ethernet padding excluded
	}
	return false
}

// unicastIPv4 reports whether an address can be a host's: not "this network", loopback, multicast,
// reserved or broadcast (RFC 1812 sections 4.2.2.11 and 5.3.7).
func unicastIPv4(addr uint32) bool {
	first := addr >> 24
	return first != 0 && first != 127 && first < 224
}

// queryIPv4 reports whether an ICMP type is known not to be an error: echo, router discovery, timestamp,
// information, address mask and extended echo. An unknown type may be an error.
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
	// Exceptions for multicast: path MTU errors, and options that request an error (RFC 4443
	// section 2.4(e.3)).
	if (group || p[24] == 0xff) && c != TooBig && c != UnrecognizedOption {
		return true
	}
	// Later fragments are no exception in IPv6, and errors are too short to be fragmented.
	p = p[:min(packet.IPv6Len+(*packet.IPv6)(p).PayloadLen(), len(p))] // excludes Ethernet padding
	l4, ok := packet.FindL4(p)
	if !ok {
		return true // a broken header chain may contain an error
	}
	if l4.Proto == packet.ICMPv6 && !l4.Later {
		const redirect = 137
		return l4.Offset >= len(p) || p[l4.Offset] < 128 || p[l4.Offset] == redirect
	}
	return false
}

// unicastIPv6 reports whether an address can be a node's: not unspecified, loopback or multicast.
func unicastIPv6(addr []byte) bool {
	high, low := binary.BigEndian.Uint64(addr), binary.BigEndian.Uint64(addr[8:])
	return addr[0] != 0xff && (high != 0 || low > 1)
}
