package packet

import "encoding/binary"

// L4 locates the transport header of an IPv6 packet.
type L4 struct {
	Offset   int // from the start of the IPv6 header
	Proto    Protocol
	Fragment bool // the packet is a fragment
	Later    bool // a fragment after the first: Offset is in its payload
	Routing0 bool // a type 0 routing header with segments left precedes it (RFC 5095)
}

// maxExtensionHeaders bounds the header chain. RFC 8200 section 4.1 foresees seven headers; Linux and
// others follow eight.
const maxExtensionHeaders = 8

// FindL4 follows the extension headers of the IPv6 packet p to the transport header. It is not ok if
// the chain is broken or too long.
func FindL4(p []byte) (l4 L4, ok bool) {
	next, at := (*IPv6)(p).NextHeader(), IPv6Len
	for range maxExtensionHeaders + 1 {
		var length int
		switch next {
		case HopByHop, DestOptions, Routing:
			if at+8 > len(p) {
				return l4, false
			}
			length = (int(p[at+1]) + 1) * 8
			if next == Routing && p[at+2] == 0 && p[at+3] != 0 {
				l4.Routing0 = true
			}
		case AH:
			if at+8 > len(p) {
				return l4, false
			}
			length = (int(p[at+1]) + 2) * 4
		case Fragment:
			if at+8 > len(p) {
				return l4, false
			}
			length = 8
			l4.Fragment = true
			if binary.BigEndian.Uint16(p[at+2:])&0xfff8 != 0 { // not the first fragment: payload follows
				l4.Proto, l4.Offset, l4.Later = Protocol(p[at]), at+8, true
				return l4, true
			}
		default:
			l4.Proto, l4.Offset = next, at
			return l4, true
		}
		if at+length > len(p) {
			return l4, false
		}
		next, at = Protocol(p[at]), at+length
	}
	return l4, false
}

// IsExtension reports whether FindL4 follows a next-header value.
func (p Protocol) IsExtension() bool {
	switch p {
	case HopByHop, Routing, Fragment, AH, DestOptions:
		return true
	}
	return false
}
