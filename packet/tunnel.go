package packet

import "encoding/binary"

// Senders that leave checksums to their NIC leave those of a tunnel's inner packet, too; the outer
// checksums are complete and assume a complete inner one (local checksum offload in Linux). So a packet
// with a complete outer L4 checksum may need completion inside, one level deep.

// Protocols and ports of tunnels.
const (
	protoIPv4 Protocol = 4
	protoIPv6 Protocol = 41
	protoGRE  Protocol = 47

	portVXLAN      = 4789
	portVXLANLinux = 8472 // Linux's default, older than IANA's
	portGENEVE     = 6081

	etherTypeEthernet EtherType = 0x6558 // transparent Ethernet bridging
)

// completeInner completes the L4 checksum of the inner packet of l4, if there is one.
func completeInner(l4 []byte, proto Protocol) bool {
	switch proto {
	case protoIPv4:
		return completeIP(l4, EtherTypeIPv4)
	case protoIPv6:
		return completeIP(l4, EtherTypeIPv6)
	case protoGRE: // RFC 2784, 2890
		if len(l4) < 4 {
			return false
		}
		size := 4
		for _, optional := range []byte{0x80, 0x20, 0x10} { // checksum, key, sequence number
			if l4[0]&optional != 0 {
				size += 4
			}
		}
		return completeIn(l4, size, EtherType(binary.BigEndian.Uint16(l4[2:])))
	case UDP:
		if len(l4) < 16 {
			return false
		}
		switch binary.BigEndian.Uint16(l4[2:]) {
		case portVXLAN, portVXLANLinux: // RFC 7348
			return completeIn(l4, 16, etherTypeEthernet)
		case portGENEVE: // RFC 8926
			return completeIn(l4, 16+4*int(l4[8]&0x3f), EtherType(binary.BigEndian.Uint16(l4[10:])))
		}
	}
	return false
}

// completeIn completes the packet of type t at an offset in b.
func completeIn(b []byte, at int, t EtherType) bool {
	if t == etherTypeEthernet {
		if at+EthernetLen > len(b) {
			return false
		}
		t = (*Ethernet)(b[at:]).Type()
		at += EthernetLen
	}
	if at > len(b) {
		return false
	}
	return completeIP(b[at:], t)
}

// completeIP completes an unchecked inner packet.
func completeIP(p []byte, t EtherType) bool {
	switch {
	case t == EtherTypeIPv4 && len(p) >= IPv4Len:
		h := (*IPv4)(p)
		header, size := h.HeaderLen(), h.TotalLen()
		if h.Version() != 4 || header < IPv4Len || size < header || size > len(p) || h.Fragmented() {
			return false
		}
		return completeL4(p[12:20], p[header:size], h.Protocol())
	case t == EtherTypeIPv6 && len(p) >= IPv6Len:
		h := (*IPv6)(p)
		size := IPv6Len + h.PayloadLen()
		if h.Version() != 6 || size > len(p) {
			return false
		}
		l4, ok := FindL4(p[:size])
		if !ok || l4.Fragment {
			return false
		}
		return completeL4(p[8:40], p[l4.Offset:size], l4.Proto)
	}
	return false
}
