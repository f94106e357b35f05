// Package fragment splits IP packets that are longer than a link allows, and puts
// such packets together again.
//
// A Split plans the fragments of one packet and writes them, one by one, into the
// caller's buffers. A Reassembler collects fragments that are addressed to this
// router, the outer packets of tunnels above all, in memory of a fixed size, and
// gives back each whole packet.
//
// RFC 791 describes both for IPv4, RFC 8200 4.5 for IPv6; RFC 1858, 4963, 5722,
// 6946 and 7112 what goes wrong. Overlapping fragments, which no honest sender
// makes, cost the datagram in both families.
package fragment

import (
	"encoding/binary"
	"errors"

	"github.com/warproute/warproute/packet"
)

const (
	unit      = 8         // bytes that offsets are counted in
	maxPacket = 1<<16 - 1 // bytes of an IPv4 packet, and of an IPv6 packet behind its first header

	fragmentHeaderLen = 8 // of IPv6

	// In the IPv4 header's word of flags and offset.
	dontFragment  = 0x4000
	moreFragments = 0x2000
	offsetMask    = 0x1fff
)

// Reasons for which a packet is not split.
var (
	ErrDontFragment = errors.New("the packet has its Don't Fragment bit set")
	ErrOptions      = errors.New("the packet has IPv4 options or IPv6 extension headers, which fragments might have to repeat")
	ErrMTU          = errors.New("the MTU leaves no room for 8 bytes behind the headers")
	ErrMalformed    = errors.New("the header does not fit the packet, or the fragment its datagram")
)

// Split is a plan to send one packet as fragments. It refers to the packet, which
// stays as it is until the last of them was written.
type Split struct {
	packet []byte
	header int    // bytes of the packet that each fragment repeats
	step   int    // bytes of payload in each fragment but the last
	id     uint32 // IPv6
}

// IPv4 plans to send the IPv4 packet p over a link with an MTU of mtu bytes. p has
// no options, and its Don't Fragment bit is clear; it may be a fragment itself.
// What lies behind its total length is left out. A packet that fits the link, with
// whatever options and flags, makes one fragment: itself.
func IPv4(p []byte, mtu int) (Split, error) {
	if len(p) < packet.IPv4Len {
		return Split{}, ErrMalformed
	}
	h := (*packet.IPv4)(p)
	header, size := h.HeaderLen(), h.TotalLen()
	switch {
	case h.Version() != 4, header < packet.IPv4Len, size < header, size > len(p):
		return Split{}, ErrMalformed
	case h.FragmentOffset()*unit+size > maxPacket: // and its fragments' offsets would start anew at 0
		return Split{}, ErrMalformed
	case size <= mtu:
		return Split{packet: p[:size], header: header, step: size}, nil
	case binary.BigEndian.Uint16(p[6:])&dontFragment != 0:
		return Split{}, ErrDontFragment
	case header != packet.IPv4Len:
		return Split{}, ErrOptions
	case mtu < header+unit:
		return Split{}, ErrMTU
	}
	return Split{packet: p[:size], header: header, step: (mtu - header) &^ (unit - 1)}, nil
}

// IPv6 is IPv4 for an IPv6 packet that this router sends itself: routers do not
// fragment what they forward (RFC 8200 4.5). id is one that no other packet
// between the two addresses has had for a while. p has no extension headers that
// routers on the way may look at (hop-by-hop options, routing), nor is it a
// fragment.
func IPv6(p []byte, mtu int, id uint32) (Split, error) {
	if len(p) < packet.IPv6Len {
		return Split{}, ErrMalformed
	}
	h := (*packet.IPv6)(p)
	size := packet.IPv6Len + h.PayloadLen()
	if h.Version() != 6 || size > len(p) {
		return Split{}, ErrMalformed
	}
	if size <= mtu {
		return Split{packet: p[:size], header: packet.IPv6Len, step: size}, nil
	}
	switch h.NextHeader() {
	case packet.HopByHop, packet.Routing, packet.Fragment, packet.DestOptions:
		return Split{}, ErrOptions
	}
	room := mtu - packet.IPv6Len - fragmentHeaderLen
	if room < unit {
		return Split{}, ErrMTU
	}
	return Split{packet: p[:size], header: packet.IPv6Len, step: room &^ (unit - 1), id: id}, nil
}

// Count is the number of fragments, 0 for the zero Split.
func (s *Split) Count() int {
	if s.step == 0 {
		return 0
	}
	return max(1, (len(s.packet)-s.header+s.step-1)/s.step)
}

// Put writes fragment i, counted from 0, to dst and returns its length, which is
// at most the MTU. It returns 0 when there is no such fragment or dst is too
// short for it.
func (s *Split) Put(dst []byte, i int) int {
	count := s.Count()
	if i < 0 || i >= count {
		return 0
	}
	if count == 1 {
		if len(dst) < len(s.packet) {
			return 0
		}
		return copy(dst, s.packet)
	}
	at := i * s.step
	payload := s.packet[s.header+at:]
	last := len(payload) <= s.step
	payload = payload[:min(len(payload), s.step)]
	if s.packet[0]>>4 == 4 {
		return s.putIPv4(dst, at, payload, last)
	}
	return s.putIPv6(dst, at, payload, last)
}

// putIPv4 writes the fragment with the payload at an offset, in bytes, from the
// start of the packet's.
func (s *Split) putIPv4(dst []byte, at int, payload []byte, last bool) int {
	size := s.header + len(payload)
	if len(dst) < size {
		return 0
	}
	copy(dst, s.packet[:s.header])
	copy(dst[s.header:], payload)
	// The packet's own offset, and whether others follow it, if it is a fragment.
	word := binary.BigEndian.Uint16(s.packet[6:]) + uint16(at/unit)
	if !last {
		word |= moreFragments
	}
	binary.BigEndian.PutUint16(dst[2:], uint16(size))
	binary.BigEndian.PutUint16(dst[6:], word)
	binary.BigEndian.PutUint16(dst[10:], 0)
	binary.BigEndian.PutUint16(dst[10:], packet.Checksum(dst[:s.header]))
	return size
}

func (s *Split) putIPv6(dst []byte, at int, payload []byte, last bool) int {
	size := s.header + fragmentHeaderLen + len(payload)
	if len(dst) < size {
		return 0
	}
	copy(dst, s.packet[:s.header])
	binary.BigEndian.PutUint16(dst[4:], uint16(fragmentHeaderLen+len(payload)))
	dst[6] = byte(packet.Fragment)

	f := dst[s.header:]
	word := uint16(at) // a multiple of 8: the offset in its place, above the flags
	if !last {
		word |= 1
	}
	f[0], f[1] = s.packet[6], 0
	binary.BigEndian.PutUint16(f[2:], word)
	binary.BigEndian.PutUint32(f[4:], s.id)
	copy(f[fragmentHeaderLen:], payload)
	return size
}
