package ipsec

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// Decapsulate verifies the packet of n bytes at buf[at:], which SAD.Lookup gave this
// association for, and turns it in place into the one that was protected; it returns
// where and how long that is. Only the packet itself is written. One that is refused
// may be overwritten in part, and is to be dropped.
//
// A packet is checked in the order of RFC 4303 section 3.4: sequence number,
// authenticity, then the number again, for good, and only then what is inside.
//
// In transport mode behind a NAT, TCP and UDP checksums cover the addresses before
// the NAT changed them, and are passed as they are: as with Linux, it is for the
// receiving host to ignore them (RFC 3948 section 3.1.2).
func (s *SA) Decapsulate(w int, buf []byte, at, n int) (int, int, Error) {
	if e := s.usable(In); e != OK {
		return at, n, e
	}
	if at < 0 || n < 0 || at+n > len(buf) {
		return at, n, InBufferError
	}
	p := buf[at : at+n]
	h, ok := parse(p)
	if !ok || !h.extend(p[:h.total], false) || h.fragment {
		return at, n, InHdrError
	}
	p = p[:h.total]
	from, to, e := s.find(p, &h)
	if e != OK {
		return at, n, e
	}
	sealed := p[from:to:to]
	if len(sealed) < espLen+s.suite.IVLen+trailerLen+s.suite.ICVLen {
		return at, n, InStateProtoError
	}

	mine := &s.workers[w]
	seq, fresh := s.Infer(binary.BigEndian.Uint32(sealed[4:]))
	if !fresh {
		add(&mine.replays, 1)
		return at, n, InStateSeqError
	}
	if !mine.transform.Open(sealed, uint32(seq>>32), s.c.ESN) {
		add(&mine.forgeries, 1)
		return at, n, InStateProtoError
	}
	if !s.Accept(seq) { // another worker was faster with the same packet
		add(&mine.replays, 1)
		return at, n, InStateSeqError
	}

	body := sealed[espLen+s.suite.IVLen : len(sealed)-s.suite.ICVLen]
	next := packet.Protocol(body[len(body)-1])
	pad := int(body[len(body)-2])
	size := len(body) - trailerLen - pad
	if size < 0 || !padded(body[size:size+pad]) {
		return at, n, InStateProtoError
	}
	if next == packet.NoNext {
		return at, n, InDummy
	}
	bodyAt := at + from + espLen + s.suite.IVLen
	at2, n2 := bodyAt, size
	if s.c.Mode == Tunnel {
		if n2, e = unwrap(body[:size], next, h.tos); e != OK {
			return at, n, e
		}
	} else {
		// The header moves up to what it was in front of.
		at2, n2 = bodyAt-h.len, h.len+size
		copy(buf[at2:], buf[at:at+h.len])
		h.mend(buf[at2:at2+n2], next)
	}
	if !s.Count(w, 1, uint64(n2)) {
		return at, n, InStateExpired
	}
	return at2, n2, OK
}

// find returns where ESP is in p, of header h: from the SPI to the end of the ICV.
func (s *SA) find(p []byte, h *header) (from, to int, e Error) {
	from, to = h.len, len(p)
	inUDP := false
	switch packet.Protocol(p[h.nextAt]) {
	case protoESP:
	case packet.UDP:
		if to-from < udpLen {
			return 0, 0, InHdrError
		}
		// The checksum says nothing that the ICV does not.
		length := int(binary.BigEndian.Uint16(p[from+4:]))
		if length > to-from { // too short is seen below
			return 0, 0, InHdrError
		}
		inUDP, from, to = true, from+udpLen, from+length
	default:
		return 0, 0, InHdrError
	}
	if to-from < espLen {
		return 0, 0, InHdrError
	}
	if inUDP != (s.udp != 0) {
		return 0, 0, InStateMismatch
	}
	if binary.BigEndian.Uint32(p[from:]) != s.c.SPI {
		return 0, 0, InNoStates
	}
	return from, to, OK
}

// padded reports whether b is the padding of RFC 4303 section 2.4: 1, 2, 3...
func padded(b []byte) bool {
	var wrong byte
	for i, x := range b {
		wrong |= x ^ byte(i+1)
	}
	return wrong == 0
}

// unwrap checks the packet that a tunnel carried in p and returns its length. What
// is behind it conceals how long it is (RFC 4303 section 2.7).
func unwrap(p []byte, next packet.Protocol, outerTOS byte) (int, Error) {
	h, ok := parse(p)
	if !ok || next != protoIPv4 && next != protoIPv6 || h.v4 != (next == protoIPv4) {
		return 0, InStateModeError
	}
	if !passECN(p, &h, outerTOS) {
		return 0, InECNError
	}
	return h.total, OK
}
