package ipsec

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Protocols beside packet's.
const (
	protoIPv4 packet.Protocol = 4
	protoIPv6 packet.Protocol = 41
	protoESP  packet.Protocol = 50
)

// Lengths in bytes.
const (
	espLen     = 8 // SPI and sequence number
	trailerLen = 2 // pad length and next header, behind the padding
	udpLen     = 8
)

const hopLimit = 64 // of outer headers: the default of RFC 1700 and of Linux

// ipLen returns the length of a header without options.
func ipLen(v4 bool) int {
	if v4 {
		return packet.IPv4Len
	}
	return packet.IPv6Len
}

// header holds the fields of an IP header that ESP needs.
type header struct {
	v4       bool
	total    int // length of the packet, from its header
	len      int // length up to the protected part, or up to ESP
	nextAt   int // offset of the protocol field that names the next header
	fragment bool
	tos      byte   // DSCP and ECN
	flow     uint32 // IPv6 flow label
	df       bool   // don't fragment; always set for IPv6
}

// parse reads the header of the IP packet p into a zero header. It is not ok if the packet's total
// length exceeds p.
func (h *header) parse(p []byte) (ok bool) {
	if len(p) < packet.IPv4Len {
		return false
	}
	switch p[0] >> 4 {
	case 4:
		ip := (*packet.IPv4)(p)
		h.v4, h.total, h.len, h.nextAt, h.tos = true, ip.TotalLen(), ip.HeaderLen(), 9, p[1]
		h.fragment, h.df = ip.Fragmented(), p[6]&0x40 != 0
		return h.len >= packet.IPv4Len && h.len <= h.total && h.total <= len(p)
	case 6:
		if len(p) < packet.IPv6Len {
			return false
		}
		word := binary.BigEndian.Uint32(p)
		h.total, h.len, h.nextAt = packet.IPv6Len+(*packet.IPv6)(p).PayloadLen(), packet.IPv6Len, 6
		h.tos, h.flow, h.df = byte(word>>20), word&0xfffff, true
		return h.total <= len(p)
	}
	return false
}

// extend includes the IPv6 extension headers in front of ESP: hop-by-hop options, routing headers
// and destination options. When protecting in transport mode, destination options behind a routing
// header belong to the payload (RFC 4303 section 3.1.1), as in Linux.
func (h *header) extend(p []byte, protecting bool) (ok bool) {
	if h.v4 {
		return true
	}
	routed := false
	for {
		switch packet.Protocol(p[h.nextAt]) {
		case packet.Fragment:
			h.fragment = true
			return true
		case packet.DestOptions:
			if protecting && routed {
				return true
			}
		case packet.Routing:
			routed = true
		case packet.HopByHop:
		default:
			return true
		}
		if h.len+8 > h.total {
			return false
		}
		next := h.len + (int(p[h.len+1])+1)*8
		if next > h.total {
			return false
		}
		h.nextAt, h.len = h.len, next
	}
}

// outerHeader returns the common part of a tunnel's outer headers, without lengths.
func outerHeader(c *Config) (b [packet.IPv6Len]byte) {
	carrier := protoESP
	if c.Encap != nil {
		carrier = packet.UDP
	}
	if c.Dst.Is4() {
		b[0], b[8], b[9] = 0x45, hopLimit, byte(carrier)
		copy(b[12:], c.Src.AsSlice())
		copy(b[16:], c.Dst.AsSlice())
	} else {
		b[0], b[6], b[7] = 0x60, byte(carrier), hopLimit
		copy(b[8:], c.Src.AsSlice())
		copy(b[24:], c.Dst.AsSlice())
	}
	return b
}

// putOuter writes the outer header of a tunnel's packet p with the inner header h.
func (s *SA) putOuter(p []byte, h *header, seq uint64) {
	if s.outer != packet.IPv4Len {
		ip := (*packet.IPv6)(p)
		*ip = packet.IPv6(s.outerHeader)
		binary.BigEndian.PutUint32(ip[0:], 6<<28|uint32(h.tos)<<20|h.flow)
		binary.BigEndian.PutUint16(ip[4:], uint16(len(p)-packet.IPv6Len))
		return
	}
	ip := (*packet.IPv4)(p)
	*ip = packet.IPv4(s.outerHeader[:packet.IPv4Len])
	length := uint16(len(p))
	id := uint16(seq) // unique modulo 2^16, in case the packet is fragmented (RFC 6864)
	flags := uint16(0)
	if s.df == SetDF || s.df == CopyDF && h.df {
		flags = 0x4000
	}
	ip[1] = h.tos
	binary.BigEndian.PutUint16(ip[2:], length)
	binary.BigEndian.PutUint16(ip[4:], id)
	binary.BigEndian.PutUint16(ip[6:], flags)
	sum := uint32(s.outerSum) + uint32(h.tos) + uint32(length) + uint32(id) + uint32(flags)
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
}

// setNext writes length and next protocol of p to its header, which h describes.
func (h *header) setNext(p []byte, next packet.Protocol) {
	p[h.nextAt] = byte(next)
	if !h.v4 {
		binary.BigEndian.PutUint16(p[4:], uint16(len(p)-packet.IPv6Len))
		return
	}
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:h.len]))
}

// putUDP writes the UDP encapsulation header at the start of u, without a checksum (IPv4:
// RFC 3948 section 2.1).
func (s *SA) putUDP(u []byte) {
	binary.BigEndian.PutUint16(u[0:], s.encap.SrcPort)
	binary.BigEndian.PutUint16(u[2:], s.encap.DstPort)
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	u[6], u[7] = 0, 0
}

// sumUDP writes the checksum of the UDP header at an offset of an IPv6 packet, where receivers
// such as Linux require one.
func sumUDP(p []byte, at int) {
	u := p[at:]
	// The pseudo-header (RFC 8200 section 8.1). Adding length and protocol as 16-bit words gives
	// the same sum.
	sum := add16(packet.Sum(p[8:40]), uint16(len(u)))
	sum = ^add16(add16(sum, uint16(packet.UDP)), packet.Sum(u))
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(u[6:], sum)
}

// add16 adds in ones' complement.
func add16(a, b uint16) uint16 {
	sum := uint32(a) + uint32(b)
	return uint16(sum>>16 + sum)
}
