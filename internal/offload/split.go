package offload

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Splitter splits a packet of the host into packets that fit its MTU, and completes their checksums, as
// tcp_gso_segment and __udp_gso_segment of Linux do.
type Splitter struct {
	header Header
	p      []byte // the packet, nil if everything was taken
	proto  packet.Protocol
	size   int // payload of a segment, in bytes
	at     int // payload that was taken, in bytes
	n      int // segments that were taken
}

// Begin starts with another packet, and forgets the previous one. It refuses a packet whose description does
// not fit it. The packet must not change until it was split.
func (s *Splitter) Begin(h Header, p []byte) (ok bool) {
	*s = Splitter{}
	if len(p) < packet.IPv4Len || p[0]>>4 == 6 && len(p) < packet.IPv6Len || p[0]>>4 != 4 && p[0]>>4 != 6 {
		return false
	}
	start, field := int(h.ChecksumStart), int(h.ChecksumStart)+int(h.ChecksumOffset)
	if h.Flags&NeedsChecksum != 0 && (start < packet.IPv4Len || field+2 > len(p)) {
		return false
	}
	if h.Type == None {
		*s = Splitter{header: h, p: p, size: len(p)}
		return true
	}
	if h.Flags&NeedsChecksum == 0 || h.SegmentSize == 0 {
		return false
	}
	switch h.Type &^ ECN {
	case TCP4, TCP6:
		if len(p) < start+tcpLen || h.ChecksumOffset != checksumInTCP {
			return false
		}
		s.proto = packet.TCP
		h.HeaderLen = uint16(start + int(p[start+12]>>4)*4)
	case UDP:
		if len(p) < start+udpLen || h.ChecksumOffset != checksumInUDP {
			return false
		}
		s.proto = packet.UDP
		h.HeaderLen = uint16(start + udpLen)
	default:
		return false
	}
	wrong := int(h.HeaderLen) > len(p) || s.proto == packet.TCP && int(h.HeaderLen) < start+tcpLen ||
		h.Type&^ECN == TCP4 && p[0]>>4 != 4 || h.Type&^ECN == TCP6 && p[0]>>4 != 6
	if p[0]>>4 == 4 {
		wrong = wrong || start != int(p[0]&0xf)*4
	} else {
		wrong = wrong || start < packet.IPv6Len
	}
	if wrong {
		return false
	}
	s.header, s.p, s.size = h, p, int(h.SegmentSize)
	return true
}

// Len returns the length of the next packet in bytes, 0 behind the last.
func (s *Splitter) Len() int {
	switch {
	case s.p == nil:
		return 0
	case s.header.Type == None:
		return len(s.p)
	}
	head := int(s.header.HeaderLen)
	return head + min(s.size, len(s.p)-head-s.at)
}

// Skip drops the packets that were not taken.
func (s *Splitter) Skip() { s.p = nil }

// Next writes the next packet to dst, which has room for Len bytes, and returns its length.
func (s *Splitter) Next(dst []byte) int {
	n := s.Len()
	if n == 0 {
		return 0
	}
	start, field := int(s.header.ChecksumStart), int(s.header.ChecksumStart)+int(s.header.ChecksumOffset)
	dst = dst[:n]
	if s.header.Type == None {
		copy(dst, s.p)
		s.p = nil
		if s.header.Flags&NeedsChecksum != 0 {
			putChecksum(dst[field:], packet.Sum(dst[start:]), s.header.ChecksumOffset == checksumInUDP)
		}
		return n
	}
	head := int(s.header.HeaderLen)
	last := s.at+n-head == len(s.p)-head
	copy(dst, s.p[:head])
	copy(dst[head:], s.p[head+s.at:])
	if dst[0]>>4 == 4 {
		binary.BigEndian.PutUint16(dst[2:], uint16(n))
		binary.BigEndian.PutUint16(dst[4:], binary.BigEndian.Uint16(dst[4:])+uint16(s.n))
		dst[10], dst[11] = 0, 0
		binary.BigEndian.PutUint16(dst[10:], packet.Checksum(dst[:start]))
	} else {
		binary.BigEndian.PutUint16(dst[4:], uint16(n-packet.IPv6Len))
	}
	l4 := dst[start:]
	if s.proto == packet.TCP {
		binary.BigEndian.PutUint32(l4[4:], binary.BigEndian.Uint32(l4[4:])+uint32(s.at))
		if s.n > 0 {
			l4[13] &^= cwr
		}
		if !last {
			l4[13] &^= psh | fin
		}
	} else {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	}
	dst[field], dst[field+1] = 0, 0
	putChecksum(dst[field:], addSums(packet.Sum(l4), pseudoSum(dst, s.proto, len(l4))), s.proto == packet.UDP)
	s.at, s.n = s.at+n-head, s.n+1
	if last {
		s.p = nil
	}
	return n
}

// putChecksum writes the complement of a sum. In UDP, zero would mean no checksum.
func putChecksum(field []byte, sum uint16, udp bool) {
	c := ^sum
	if c == 0 && udp {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(field, c)
}
