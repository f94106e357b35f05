package ipsec

import (
	"encoding/binary"
	"math"

	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

// Outgoing is an outbound packet with complete headers, before encryption; the IV of CBC is still
// the plain nonce. Offsets are relative to its buffer.
type Outgoing struct {
	At, Len int    // the packet, outer header included
	ESP     int    // the SPI; ESP extends to the end of the packet
	Seq     uint64 // sequence number
}

// Encapsulate encrypts the IP packet of n bytes at buf[at:] in place, and returns offset and length
// of the result. It needs up to Overhead bytes of room around the packet, most of them in front, and
// writes nothing else of buf. A refused packet is unchanged, but may have used a sequence number.
//
// The steps are those of RFC 4303 section 3.3:
//
//  1. Prepare: check lifetime and mode, take a sequence number (3.3.3), write outer header, UDP,
//     SPI, number, IV, padding and next header (3.3.2).
//  2. Seal: encrypt and write the ICV (3.3.2).
//
// In transport mode IP options and extension headers stay in front of ESP. Fragments are refused,
// since only whole packets are protected (RFC 4303 section 3.3.4).
func (s *SA) Encapsulate(w int, buf []byte, at, n int) (int, int, Error) {
	var o Outgoing
	if e := s.Prepare(w, buf, at, n, &o); e != OK {
		return at, n, e
	}
	s.Seal(w, buf, &o)
	return o.At, o.Len, OK
}

// Prepare is step 1 of Encapsulate, for engines whose device encrypts. The caller encrypts the
// packet by this SA, or drops it.
func (s *SA) Prepare(w int, buf []byte, at, n int, o *Outgoing) Error {
	if !s.ready(Out) {
		if e := s.usable(Out); e != OK {
			return e
		}
	}
	if at < 0 || n < 0 || at+n > len(buf) {
		return OutError
	}
	p := buf[at : at+n]
	var h header
	if !h.parse(p) {
		return OutStateModeError
	}
	n = h.total // Ethernet padding is not part of the packet
	front, body, next := int(s.outer), at, protoIPv6
	if s.mode == Transport {
		if !h.extend(p[:n], true) || h.fragment || h.v4 != s.dst.Is4() {
			return OutStateModeError
		}
		front, body, next = h.len, at+h.len, packet.Protocol(p[h.nextAt])
	} else if h.v4 {
		next = protoIPv4
	}

	esp := body - int(s.iv) - espLen
	start := esp - int(s.udp) - front
	used := at + n - body + trailerLen
	pad := -used & (int(s.align) - 1)
	end := at + n + pad + trailerLen + int(s.icv)
	if start < 0 || end > len(buf) || end-start > math.MaxUint16 {
		return OutError
	}
	mine := &s.workers[w]
	seq := s.next(&mine.reserved)
	nonce := mine.reserved.nonceBase + seq
	if seq == 0 {
		return OutStateSeqError
	}
	if s.counted && !s.within(1, uint64(n)) {
		return OutStateExpired
	}
	mine.Add(1, uint64(n))

	// Nothing fails from here on. Headers are read before they are overwritten.
	out := buf[start:end]
	if s.mode == Tunnel {
		s.putOuter(out, &h, seq)
	} else {
		carrier := protoESP
		if s.udp != 0 {
			carrier = packet.UDP
		}
		copy(out, buf[at:body])
		h.setNext(out, carrier)
	}
	if s.udp != 0 {
		s.putUDP(buf[esp-udpLen : end])
	}
	trailer := buf[at+n : end]
	for i := range pad {
		trailer[i] = byte(i + 1)
	}
	trailer[pad], trailer[pad+1] = byte(pad), byte(next)
	binary.BigEndian.PutUint64(buf[esp:], uint64(s.spi)<<32|seq&math.MaxUint32)
	suite.PutNonce(buf[esp+espLen:body], nonce)
	o.At, o.Len, o.ESP, o.Seq = start, end-start, esp, seq
	return OK
}

// Seal is step 2 of Encapsulate.
func (s *SA) Seal(w int, buf []byte, o *Outgoing) {
	out := buf[o.At : o.At+o.Len]
	sealed := buf[o.ESP : o.At+o.Len : o.At+o.Len]
	t := s.transforms[w]
	t.EncryptIV(sealed[espLen : espLen+int(s.iv)])
	t.Seal(sealed, uint32(o.Seq>>32), s.extended)
	if s.sumsUDP {
		sumUDP(out, o.ESP-o.At-udpLen)
	}
}
