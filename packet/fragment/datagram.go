package fragment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/warproute/warproute/packet"
)

// Reasons for a refused fragment, in addition to ErrMalformed.
var (
	ErrTooLong = errors.New("the reassembled datagram is longer than a packet can be")
	ErrOverlap = errors.New("fragments overlap")
	ErrLength  = errors.New("fragments disagree on their datagram's length")
	ErrECN     = errors.New("fragments mix congestion experienced and not ECN-capable")
)

// maxHeader is the longest header of a fragment in bytes, with IPv6 extension headers.
const maxHeader = 256

// datagram is an incomplete packet. Payloads are in its buffer at their offsets, so number and order of
// fragments do not matter.
//
//	 0      maxHeader-header    maxHeader                 maxHeader+size
//	+------+-------------------+-------------------------+-------+
//	|      | first's header    | payload                 |       |
//	+------+-------------------+-------------------------+-------+
type datagram struct {
	key
	born time.Duration // arrival of the first fragment
	err  error         // why it was abandoned: later fragments are refused, too

	have     bitmap // received units
	starts   bitmap // first units of received fragments
	got      int    // bytes of received payload
	taken    int    // accepted fragments that are not counted as lost
	expected bool   // see Origin
	furthest int    // end of the received payload
	size     int    // length of the whole payload; 0: the last fragment is missing
	header   int    // length of the header; 0: the first fragment is missing
	nextAt   int    // see piece
	next     packet.Protocol
	ecn      uint8 // a bit for each received codepoint

	buf []byte
}

// bufferLen is the length of a datagram's buffer: the longest packet, and room for its header, which
// that length includes already.
const bufferLen = maxHeader + maxPacket + 1

// reset clears all but the buffer, whose bytes are written before they are read.
func (d *datagram) reset(k key, now time.Duration) {
	*d = datagram{key: k, born: now, buf: d.buf}
}

// add accepts one fragment. An error abandons the datagram: an overlapping fragment makes all of them
// suspect (RFC 5722 section 4).
func (d *datagram) add(p *piece) error {
	if d.err == nil {
		d.err = d.place(p)
	}
	return d.err
}

func (d *datagram) place(p *piece) error {
	from, to := p.offset/unit, (p.end()+unit-1)/unit
	switch {
	case d.have.count(from, to) != 0:
		if d.duplicate(p, from, to) {
			return nil // duplicates are normal (RFC 8200 section 4.5)
		}
		return ErrOverlap
	case d.size != 0 && (!p.more || p.end() > d.size), !p.more && p.end() < d.furthest:
		return ErrLength
	}
	copy(d.buf[maxHeader+p.offset:], p.payload)
	d.have.set(from, to)
	d.starts.set(from, from+1)
	d.got += len(p.payload)
	d.furthest = max(d.furthest, p.end())
	d.ecn |= 1 << p.ecn
	if !p.more {
		d.size = p.end()
	}
	if p.offset == 0 {
		d.header, d.nextAt, d.next = len(p.header), p.nextAt, p.next
		copy(d.buf[maxHeader-d.header:], p.header)
	}
	return nil
}

// duplicate reports whether an overlapping fragment equals an earlier one.
func (d *datagram) duplicate(p *piece, from, to int) bool {
	return d.starts.has(from) && d.starts.count(from, to) == 1 && // the same start, no other inside,
		d.have.count(from, to) == to-from && (d.starts.has(to) || !d.have.has(to)) && // the same end,
		p.more == (p.end() != d.size) && // the same More Fragments bit,
		bytes.Equal(p.payload, d.buf[maxHeader+p.offset:maxHeader+p.end()])
}

// complete reports whether all fragments have arrived.
func (d *datagram) complete() bool { return d.header != 0 && d.size != 0 && d.got == d.size }

// finish assembles the packet in the buffer.
func (d *datagram) finish() ([]byte, error) {
	const notECT, congestion = 1 << 0, 1 << 3
	if d.ecn&congestion != 0 && d.ecn&notECT != 0 { // RFC 3168 5.3
		return nil, ErrECN
	}
	congested := d.ecn&congestion != 0
	p := d.buf[maxHeader-d.header : maxHeader+d.size]
	if d.version == 4 {
		if len(p) > maxPacket { // the first fragment had more options than the last
			return nil, ErrTooLong
		}
		if congested {
			p[1] |= 3
		}
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(p[6:], 0)
		binary.BigEndian.PutUint16(p[10:], 0)
		binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:d.header]))
		return p, nil
	}
	if len(p) > packet.IPv6Len+maxPacket {
		return nil, ErrTooLong
	}
	if congested {
		p[1] |= 3 << 4
	}
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-packet.IPv6Len))
	p[d.nextAt] = byte(d.next)
	return p, nil
}
