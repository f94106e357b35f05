package fragment

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// key identifies a datagram: fragments with the same key belong together (RFC 791 section 3.2, RFC 8200
// section 4.5). An IPv4 address is in the first 4 bytes, the rest zero.
type key struct {
	version  uint8
	domain   uint8
	proto    packet.Protocol // IPv4 only; IPv6's is in the first fragment
	id       uint32
	src, dst [16]byte
}

// source is the unit of limits per sender: an IPv4 address, or an IPv6 /64, in which a host may use any
// address.
type source struct {
	version uint8
	prefix  [8]byte
}

func (k *key) source() source { return source{k.version, [8]byte(k.src[:8])} }

// piece is a parsed fragment.
type piece struct {
	key
	header  []byte // headers before the payload, without an IPv6 Fragment header
	payload []byte
	offset  int  // in the datagram's payload, in bytes
	more    bool // More Fragments
	ecn     uint8

	// IPv6: offset in header of the next-header field that says "Fragment", and its value in the
	// reassembled packet.
	nextAt int
	next   packet.Protocol
}

// end returns the end of the payload in the datagram's, in bytes.
func (p *piece) end() int { return p.offset + len(p.payload) }

// parse parses a packet. fragment is false for a whole packet.
func parse(p []byte) (f piece, fragment bool, err error) {
	if len(p) == 0 {
		return f, false, ErrMalformed
	}
	switch p[0] >> 4 {
	case 4:
		f, fragment, err = parseIPv4(p)
	case 6:
		f, fragment, err = parseIPv6(p)
	default:
		err = ErrMalformed
	}
	if err != nil || !fragment {
		return f, false, err
	}
	switch {
	case len(f.payload) == 0 && (f.more || f.offset != 0): // an empty fragment
		return f, false, ErrMalformed
	case f.more && len(f.payload)%unit != 0, len(f.header) > maxHeader:
		return f, false, ErrMalformed
	case f.version == 4 && len(f.header)+f.end() > maxPacket, len(f.header)+f.end() > packet.IPv6Len+maxPacket:
		return f, false, ErrTooLong
	}
	return f, true, nil
}

func parseIPv4(p []byte) (f piece, fragment bool, err error) {
	if len(p) < packet.IPv4Len {
		return f, false, ErrMalformed
	}
	h := (*packet.IPv4)(p)
	header, size := h.HeaderLen(), h.TotalLen()
	if header < packet.IPv4Len || size < header || size > len(p) {
		return f, false, ErrMalformed
	}
	if !h.Fragmented() {
		return f, false, nil
	}
	word := binary.BigEndian.Uint16(p[6:])
	f.version, f.id, f.proto = 4, uint32(binary.BigEndian.Uint16(p[4:])), h.Protocol()
	copy(f.src[:], p[12:16])
	copy(f.dst[:], p[16:20])
	f.header, f.payload = p[:header], p[header:size]
	f.offset, f.more = int(word&offsetMask)*unit, word&moreFragments != 0
	f.ecn = p[1] & 3
	return f, true, nil
}

func parseIPv6(p []byte) (f piece, fragment bool, err error) {
	if len(p) < packet.IPv6Len {
		return f, false, ErrMalformed
	}
	h := (*packet.IPv6)(p)
	size := packet.IPv6Len + h.PayloadLen()
	if size > len(p) {
		return f, false, ErrMalformed
	}
	p = p[:size]
	// The Fragment header follows the headers that routers process.
	next, at := h.NextHeader(), packet.IPv6Len
	f.nextAt = 6
	for next == packet.HopByHop || next == packet.DestOptions || next == packet.Routing {
		if at+unit > len(p) {
			return f, false, ErrMalformed
		}
		f.nextAt, next, at = at, packet.Protocol(p[at]), at+(int(p[at+1])+1)*unit
	}
	if next != packet.Fragment {
		return f, false, nil
	}
	if at+fragmentHeaderLen > len(p) {
		return f, false, ErrMalformed
	}
	word := binary.BigEndian.Uint16(p[at+2:])
	f.version, f.id = 6, binary.BigEndian.Uint32(p[at+4:])
	f.src, f.dst = h.Src(), h.Dst()
	f.header, f.payload = p[:at], p[at+fragmentHeaderLen:]
	f.offset, f.more = int(word&^7), word&1 != 0
	f.ecn = p[1] >> 4 & 3
	f.next = packet.Protocol(p[at])
	if f.offset == 0 {
		// All extension headers must be in the first fragment, or filters could miss one (RFC 7112).
		if _, ok := packet.FindL4(p); !ok {
			return f, false, ErrMalformed
		}
	}
	return f, true, nil
}
