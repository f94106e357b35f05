// Package fragment fragments and reassembles IP packets (RFC 791; RFC 8200 section 4.5).
//
// A Split plans the fragments of one packet and writes them, one by one, into the caller's buffers. A
// Reassembler collects fragments for this router, mostly outer packets of tunnels, in memory of fixed
// size, and returns whole packets.
//
// RFC 1858, 4963, 5722, 6946 and 7112 describe attacks. Overlapping fragments discard the datagram in
// both families.
package fragment

import (
	"encoding/binary"
	"errors"

	"github.com/warproute/warproute/packet"
)

const (
	unit      = 8         // bytes per unit of offsets
	maxPacket = 1<<16 - 1 // bytes of an IPv4 packet, and of an IPv6 packet behind its first header

	fragmentHeaderLen = 8 // IPv6 Fragment header

	// In the IPv4 header's word of flags and offset.
	dontFragment  = 0x4000
	moreFragments = 0x2000
	offsetMask    = 0x1fff
)

// Reasons why a packet is not fragmented.
var (
	ErrDontFragment = errors.New("the packet has its Don't Fragment bit set")
	ErrOptions      = errors.New("the packet has IPv4 options or IPv6 extension headers, which fragments might have to repeat")
	ErrMTU          = errors.New("the MTU leaves no room for 8 bytes behind the headers")
	ErrMalformed    = errors.New("the header does not fit the packet, or the fragment its datagram")
)

// Split is a plan to send one packet as fragments. It refers to the packet, which must not change until
// the last fragment is written.
type Split struct {
	packet []byte
	header int    // bytes that each fragment repeats
	step   int    // bytes of payload per fragment
	id     uint32 // IPv6
}

// IPv4 plans to send the IPv4 packet p over a link with an MTU of mtu bytes. p has no options and DF is
// clear; it may be a fragment itself. Bytes behind its total length are ignored. A packet that fits,
// with any options and flags, makes one fragment: itself.
func IPv4(p []byte, mtu int) (Split, error) {
	if len(p) < packet.IPv4Len {
		return Split{}, ErrMalformed
	}
	h := (*packet.IPv4)(p)
	header, size := h.HeaderLen(), h.TotalLen()
	switch {
	case h.Version() != 4, header < packet.IPv4Len, size < header, size > len(p):
		return Split{}, ErrMalformed
	case h.FragmentOffset()*unit+size > maxPacket: // offsets would wrap
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

// IPv6 is IPv4 for an IPv6 packet that this router creates: routers do not fragment forwarded packets
// (RFC 8200 section 4.5). id is unique between the two addresses for a while. p has no extension headers
// that routers process (hop-by-hop options, routing) and is not a fragment.
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

// Count returns the number of fragments, 0 for the zero Split.
func (s *Split) Count() int {
	if s.step == 0 {
		return 0
	}
	return max(1, (len(s.packet)-s.header+s.step-1)/s.step)
}

// Put writes fragment i, counted from 0, to dst and returns its length, at most the MTU. It returns 0 if
// there is no such fragment or dst is too short.
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

// putIPv4 writes the fragment with the payload at an offset in bytes from the packet's start.
func (s *Split) putIPv4(dst []byte, at int, payload []byte, last bool) int {
	size := s.header + len(payload)
	if len(dst) < size {
		return 0
	}
	copy(dst, s.packet[:s.header])
	copy(dst[s.header:], payload)
	// Offset and More Fragments of the packet, if it is a fragment.
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
	word := uint16(at) // a multiple of 8: in place above the flags
	if !last {
		word |= 1
	}
	f[0], f[1] = s.packet[6], 0
	binary.BigEndian.PutUint16(f[2:], word)
	binary.BigEndian.PutUint32(f[4:], s.id)
	copy(f[fragmentHeaderLen:], payload)
	return size
}
