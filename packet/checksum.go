package packet

import (
	"encoding/binary"
	"math/bits"
)

// fold folds a sum of 16-bit words to 16 bits with end-around carry.
func fold(s uint64) uint16 {
	s = s>>32 + s&0xffffffff
	s = s>>32 + s&0xffffffff
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return uint16(s)
}

// Sum returns the ones' complement sum (RFC 1071) of b as big-endian 16-bit words, zero-padded, not
// complemented.
func Sum(b []byte) uint16 {
	// The sum does not depend on byte order (RFC 1071 section 2B): add words of 8 bytes in machine
	// order and swap once.
	var s, carry uint64
	for len(b) >= 32 {
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b[0:8]), 0)
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b[8:16]), carry)
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b[16:24]), carry)
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b[24:32]), carry)
		s += carry // cannot overflow: a sum with carry is not all ones
		b = b[32:]
	}
	for len(b) >= 8 {
		s, carry = bits.Add64(s, binary.LittleEndian.Uint64(b), 0)
		s += carry
		b = b[8:]
	}
	if len(b) > 0 {
		var tail uint64
		for i, x := range b {
			tail |= uint64(x) << (8 * i)
		}
		s, carry = bits.Add64(s, tail, 0)
		s += carry
	}
	return bits.ReverseBytes16(fold(s))
}

// Checksum returns the Internet checksum of b: the complement of its Sum.
func Checksum(b []byte) uint16 { return ^Sum(b) }

// UpdateChecksum returns checksum hc after a covered word changed from m to m2
// (RFC 1624, equation 3).
func UpdateChecksum(hc, m, m2 uint16) uint16 {
	s := uint32(^hc) + uint32(^m) + uint32(m2)
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return ^uint16(s)
}

// pseudo returns the sum of a TCP or UDP pseudo-header, not complemented. addrs is source and
// destination in header order, 8 or 32 bytes.
func pseudo(addrs []byte, proto Protocol, l4len int) uint16 {
	return fold(uint64(Sum(addrs)) + uint64(proto) + uint64(l4len))
}

// completeL4 completes a TCP or UDP checksum that the sender left to its NIC: a field with only the
// pseudo-header sum, as Linux leaves it, gets the full checksum. A complete checksum that equals that
// sum by chance is recomputed with the same result. l4 is the packet from the L4 header to its end.
// It reports whether the checksum was incomplete.
func completeL4(addrs, l4 []byte, proto Protocol) bool {
	var at int
	switch proto {
	case TCP:
		at = 16
	case UDP:
		at = 6
	default:
		return false
	}
	if len(l4) < at+2 {
		return false
	}
	field := l4[at : at+2]
	sum := binary.BigEndian.Uint16(field)
	// No pseudo-header sums to zero, which in UDP means "no checksum".
	if sum == 0 || sum != pseudo(addrs, proto, len(l4)) {
		return false
	}
	// The field holds the pseudo-header's sum, so the sum of all of l4 is the sum that the checksum
	// covers.
	c := Checksum(l4)
	if c == 0 && proto == UDP {
		c = 0xffff // zero would mean "no checksum" (RFC 768)
	}
	binary.BigEndian.PutUint16(field, c)
	return true
}

// CompleteIPv4 completes the L4 checksum of an IPv4 packet without options, or of its inner packet, and
// reports whether it was incomplete. p is the whole packet. Fragments are not changed: the kernel
// completes checksums before it fragments.
func CompleteIPv4(p []byte) bool {
	h := (*IPv4)(p)
	if h.Fragmented() {
		return false
	}
	l4, proto := p[IPv4Len:], h.Protocol()
	return completeL4(p[12:20], l4, proto) || completeInner(l4, proto)
}

// CompleteIPv6 is CompleteIPv4 for an IPv6 packet whose L4 header, of type proto, starts at p[l4:].
func CompleteIPv6(p []byte, proto Protocol, l4 int) bool {
	return completeL4(p[8:40], p[l4:], proto) || completeInner(p[l4:], proto)
}
