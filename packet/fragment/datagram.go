package fragment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/warproute/warproute/packet"
)

// Reasons for which a fragment is refused, beside ErrMalformed.
var (
	ErrTooLong = errors.New("the fragments' datagram is longer than a packet can be")
	ErrOverlap = errors.New("fragments overlap")
	ErrLength  = errors.New("fragments disagree on their datagram's length")
	ErrECN     = errors.New("fragments that saw congestion and fragments of a sender without ECN do not belong together")
)

// maxHeader is how long the header of a fragment may be in bytes, IPv6 extension
// headers included.
const maxHeader = 256

// datagram is a packet of which not all fragments have come. Their payloads lie
// in its buffer, each in its place; so it does not matter how many there are, and
// in which order.
//
//	 0      maxHeader-header    maxHeader                 maxHeader+size
//	+------+-------------------+-------------------------+-------+
//	|      | first's header    | payload                 |       |
//	+------+-------------------+-------------------------+-------+
type datagram struct {
	key
	born time.Duration // when the first fragment came
	err  error         // why it was abandoned: its other fragments are refused, too

	have     bitmap // units that came
	starts   bitmap // those of them with which a fragment began
	got      int    // bytes of payload that came
	taken    int    // fragments that were taken in and are not counted as lost
	expected bool   // see Origin
	furthest int    // where the payload that came ends
	size     int    // of the whole payload; 0: the last fragment has not come
	header   int    // length of the header; 0: the first fragment has not come
	nextAt   int    // see piece
	next     packet.Protocol
	ecn      uint8 // a bit for each codepoint that was seen

	buf []byte
}

// bufferLen is the length of a datagram's buffer. The header is counted in the
// longest packet's length; so there is room to spare.
const bufferLen = maxHeader + maxPacket + 1

// reset forgets all but the buffer, which keeps its bytes: none of them is read
// before it was written anew.
func (d *datagram) reset(k key, now time.Duration) {
	*d = datagram{key: k, born: now, buf: d.buf}
}

// add takes in one fragment. An error abandons the datagram: who overlaps the
// fragments of others may have made any of them (RFC 5722 4).
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
			return nil // networks do that (RFC 8200 4.5)
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

// duplicate reports whether a fragment that overlaps is one that came before.
func (d *datagram) duplicate(p *piece, from, to int) bool {
	return d.starts.has(from) && d.starts.count(from, to) == 1 && // one fragment begins here,
		d.have.count(from, to) == to-from && (d.starts.has(to) || !d.have.has(to)) && // reaches as far,
		p.more == (p.end() != d.size) && // is, or is not, the last,
		bytes.Equal(p.payload, d.buf[maxHeader+p.offset:maxHeader+p.end()])
}

// complete reports whether all fragments have come.
func (d *datagram) complete() bool { return d.header != 0 && d.size != 0 && d.got == d.size }

// finish makes the packet, in the buffer, of all that came.
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
