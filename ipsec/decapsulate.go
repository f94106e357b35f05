package ipsec

import (
	"encoding/binary"
	"math/bits"

	"github.com/warproute/warproute/packet"
)

// Decapsulate verifies and decrypts the packet of n bytes at buf[at:] in place, and returns offset
// and length of the inner packet. It writes to the packet's bytes only, also when it refuses the
// packet.
//
// The steps are those of RFC 4303 section 3.4:
//
//  1. Find: parse the headers, infer the sequence number, check the window without changing it (3.4.3).
//  2. Open: verify the ICV and decrypt (3.4.4).
//  3. Confirm: check the window again and mark the number as received (3.4.3).
//  4. Unwrap: check padding and next header, and restore the inner packet (3.4.4.1, 2.4, 2.6).
//
// In transport mode behind a NAT, TCP and UDP checksums cover the addresses before translation
// and are not changed: the receiving host ignores them, as with Linux (RFC 3948 section 3.1.2).
func (s *SA) Decapsulate(w int, buf []byte, at, n int) (int, int, Error) {
	var in Incoming
	if e := s.Find(w, buf, at, n, &in); e != OK {
		return at, n, e
	}
	authentic := s.Open(w, buf, &in)
	if e := s.Confirm(w, in.Seq, authentic); e != OK {
		return at, n, e
	}
	at2, n2, e := s.Unwrap(buf, at, &in)
	if e != OK {
		return at, n, e
	}
	if !s.Count(w, 1, uint64(n2)) {
		return at, n, InStateExpired
	}
	return at2, n2, OK
}

// Open verifies the ICV of a packet that Find accepted and decrypts it. It reports whether the ICV
// matches, and changes no state of the SA.
func (s *SA) Open(w int, buf []byte, in *Incoming) bool {
	return s.transforms[w].Open(buf[in.ESP:in.End:in.End], uint32(in.Seq>>32), s.extended)
}

// Unwrap returns offset and length of the inner packet of a decrypted one. The received packet
// begins at buf[at:]. It changes no state of the SA.
func (s *SA) Unwrap(buf []byte, at int, in *Incoming) (int, int, Error) {
	sealed := buf[in.ESP:in.End:in.End]
	body := sealed[espLen+int(s.iv) : len(sealed)-int(s.icv)]
	next := packet.Protocol(body[len(body)-1])
	pad := int(body[len(body)-2])
	size := len(body) - trailerLen - pad
	if size < 0 || !padded(body[size:size+pad]) {
		return 0, 0, InStateProtoError
	}
	if next == packet.NoNext {
		return 0, 0, InDummy
	}
	start := s.Inner(in)
	if s.mode == Tunnel {
		n, e := unwrap(body[:size], next, in.TOS)
		return start, n, e
	}
	// The header moves to the front of the payload.
	n := in.Header + size
	copy(buf[start:], buf[at:at+in.Header])
	h := header{v4: buf[start]>>4 == 4, len: in.Header, nextAt: in.NextAt}
	h.setNext(buf[start:start+n], next)
	return start, n, OK
}

// Incoming is a received packet of an SA before verification. Offsets are relative to its buffer.
type Incoming struct {
	ESP, End int    // from the SPI to the end of the ICV
	Seq      uint64 // sequence number, the upper half inferred
	Header   int    // length of the IP headers in front of ESP or UDP, in bytes
	NextAt   int    // offset in them of the next-header field that names ESP or UDP
	TOS      byte   // traffic class of the outer header
}

// Find is step 1 of Decapsulate, for engines whose device decrypts: the device decrypts the packet
// and checks the payload; Confirm and Count follow.
func (s *SA) Find(w int, buf []byte, at, n int, in *Incoming) Error {
	if !s.ready(In) {
		if e := s.usable(In); e != OK {
			return e
		}
	}
	if at < 0 || n < 0 || at+n > len(buf) {
		return InBufferError
	}
	p := buf[at : at+n]
	var h header
	if !h.parse(p) || !h.extend(p[:h.total], false) || h.fragment {
		return InHdrError
	}
	p = p[:h.total]
	from, to, e := s.find(p, &h)
	if e != OK {
		return e
	}
	if to-from < espLen+int(s.iv)+trailerLen+int(s.icv) {
		return InStateProtoError
	}
	seq, fresh := s.Infer(binary.BigEndian.Uint32(p[from+4:]))
	if !fresh {
		s.workers[w].replays.Add(1)
		return InStateSeqError
	}
	in.ESP, in.End, in.Seq, in.Header, in.NextAt, in.TOS = at+from, at+to, seq, h.len, h.nextAt, h.tos
	return OK
}

// FindCommon is Find for valid packets p of InboundCommon with this SA, for engines whose device decrypts. end
// is the offset of the end of the ICV. It is not ok for packets in transport mode, and all that Find refuses.
// It does not check the window: Confirm does.
func (s *SA) FindCommon(p []byte, espOffset int) (seq uint64, end int, ok bool) {
	inUDP := espOffset == packet.IPv4Len+udpLen || espOffset == packet.IPv6Len+udpLen
	if !s.ready(In) || s.mode != Tunnel || inUDP != (s.udp != 0) {
		return 0, 0, false
	}
	if end = len(p); inUDP {
		start := espOffset - udpLen
		end = start + int(binary.BigEndian.Uint16(p[start+4:]))
	}
	if end > len(p) || end-espOffset < espLen+int(s.iv)+trailerLen+int(s.icv) {
		return 0, 0, false
	}
	low := binary.BigEndian.Uint32(p[espOffset+4:])
	if s.extended {
		seq, ok = s.replay.infer(low)
		return seq, end, ok
	}
	return uint64(low), end, true
}

// Confirm is step 3 of Decapsulate: it records whether a packet was authentic, and its number as
// received. It is called at most once for each packet that Find or FindCommon accepted, or whose SA a device found: not for packets that a
// device lost, or whose results were refused.
func (s *SA) Confirm(w int, seq uint64, authentic bool) Error {
	switch mine := &s.workers[w]; {
	case !authentic && s.replay.fresh(seq):
		mine.icvFailures.Add(1)
		return InStateProtoError
	case !authentic || !s.Accept(seq): // received before or, possibly by another worker, meanwhile
		mine.replays.Add(1)
		return InStateSeqError
	}
	return OK
}

// ConfirmAll is Confirm for authentic packets, in order: fresh[i] becomes whether number i was not received
// before.
func (s *SA) ConfirmAll(w int, seqs []uint64, fresh []bool) {
	s.replay.acceptAll(seqs, fresh)
	for _, is := range fresh[:len(seqs)] {
		if !is {
			s.workers[w].replays.Add(1)
		}
	}
}

// WindowBlock is how many sequence numbers ConfirmBlock takes: those of a block of the replay window, from a multiple of it on.
const WindowBlock = blockBits

// ConfirmBlock is Confirm for authentic packets with 32-bit numbers of one block: bit i of numbers is number WindowBlock * block + i. It
// returns those that are accepted: they were not received before, and are neither 0 nor older than the window. With a window of 0, all are
// accepted. All are compared with the highest number before the call: with a window of 1 to 31, the caller passes one number.
func (s *SA) ConfirmBlock(w int, block, numbers uint32) (accepted uint32) {
	accepted = uint32(s.replay.acceptBits(uint64(block), uint64(numbers)))
	if refused := numbers &^ accepted; refused != 0 {
		s.workers[w].replays.Add(uint64(bits.OnesCount32(refused)))
	}
	return accepted
}

// Inner returns the offset of the inner packet in the buffer of a decrypted one.
func (s *SA) Inner(in *Incoming) int {
	body := in.ESP + espLen + int(s.iv)
	if s.mode == Transport {
		return body - in.Header
	}
	return body
}

// find returns the range of ESP in p, a packet with header h: from the SPI to the end of the ICV.
func (s *SA) find(p []byte, h *header) (from, to int, e Error) {
	from, to = h.len, len(p)
	inUDP := false
	switch packet.Protocol(p[h.nextAt]) {
	case protoESP:
	case packet.UDP:
		if to-from < udpLen {
			return 0, 0, InHdrError
		}
		// The UDP checksum adds nothing to the ICV.
		length := int(binary.BigEndian.Uint16(p[from+4:]))
		if length > to-from { // a short length is checked below
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
	if binary.BigEndian.Uint32(p[from:]) != s.spi {
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

// unwrap checks the inner packet of a tunnel in p and returns its length. Bytes behind it are
// traffic flow confidentiality padding (RFC 4303 section 2.7).
func unwrap(p []byte, next packet.Protocol, outerTOS byte) (int, Error) {
	var h header
	if !h.parse(p) || next != protoIPv4 && next != protoIPv6 || h.v4 != (next == protoIPv4) {
		return 0, InStateModeError
	}
	if !passECN(p, &h, outerTOS) {
		return 0, InECNError
	}
	return h.total, OK
}
