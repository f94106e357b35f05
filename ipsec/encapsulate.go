package ipsec

import (
	"encoding/binary"
	"math"

	"github.com/warproute/warproute/packet"
)

// Encapsulate protects the IP packet of n bytes at buf[at:], in place, and returns
// where and how long the result is. It needs up to Overhead bytes of room around the
// packet, most of it in front; nothing else of buf is written. A packet that is
// refused is left as it was, but may have cost a sequence number.
//
// In transport mode a packet of options or extension headers keeps them in front;
// a fragment is refused, as only whole packets are protected there (RFC 4303 section
// 3.3.4).
func (s *SA) Encapsulate(w int, buf []byte, at, n int) (int, int, Error) {
	if e := s.usable(Out); e != OK {
		return at, n, e
	}
	if at < 0 || n < 0 || at+n > len(buf) {
		return at, n, OutError
	}
	p := buf[at : at+n]
	h, ok := parse(p)
	if !ok {
		return at, n, OutStateModeError
	}
	n = h.total // what Ethernet padded stays behind
	front, body, next := s.outer, at, protoIPv6
	if s.c.Mode == Transport {
		if !h.extend(p[:n], true) || h.fragment || h.v4 != s.c.Dst.Is4() {
			return at, n, OutStateModeError
		}
		front, body, next = h.len, at+h.len, packet.Protocol(p[h.nextAt])
	} else if h.v4 {
		next = protoIPv4
	}

	esp := body - s.suite.IVLen - espLen
	start := esp - s.udp - front
	used := at + n - body + trailerLen
	pad := -used & (s.suite.Align - 1)
	end := at + n + pad + trailerLen + s.suite.ICVLen
	if start < 0 || end > len(buf) || end-start > math.MaxUint16 {
		return at, n, OutError
	}
	seq, got := s.Reserve(1)
	if got == 0 {
		return at, n, OutStateSeqError
	}
	if !s.Count(w, 1, uint64(n)) {
		return at, n, OutStateExpired
	}

	// From here on nothing fails. Headers come before what they would be written over.
	out := buf[start:end]
	if s.c.Mode == Tunnel {
		s.putOuter(out, &h, seq)
	} else {
		carrier := protoESP
		if s.udp != 0 {
			carrier = packet.UDP
		}
		copy(out, buf[at:body])
		h.mend(out, carrier)
	}
	trailer := buf[at+n : end]
	for i := range pad {
		trailer[i] = byte(i + 1)
	}
	trailer[pad], trailer[pad+1] = byte(pad), byte(next)

	sealed := buf[esp:end:end]
	binary.BigEndian.PutUint32(sealed[0:], s.c.SPI)
	binary.BigEndian.PutUint32(sealed[4:], uint32(seq))
	t := s.workers[w].transform
	t.PutIV(sealed[espLen:espLen+s.suite.IVLen], seq)
	t.Seal(sealed, uint32(seq>>32), s.c.ESN)
	if s.udp != 0 {
		s.putUDP(out, front, s.c.Dst.Is4())
	}
	return start, len(out), OK
}
