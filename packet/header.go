// Package packet reads and rewrites packet headers in place.
//
// A header is a pointer to an array of its fixed size, converted from a slice with one length check;
// field accesses need no bounds checks. Numbers are in host byte order.
package packet

import "encoding/binary"

// EtherType is the type field of an Ethernet header.
type EtherType uint16

const (
	EtherTypeIPv4 EtherType = 0x0800
	EtherTypeIPv6 EtherType = 0x86dd
)

// Protocol is an IPv4 protocol or IPv6 next-header number.
type Protocol uint8

const (
	HopByHop    Protocol = 0
	ICMP        Protocol = 1
	TCP         Protocol = 6
	UDP         Protocol = 17
	Routing     Protocol = 43
	Fragment    Protocol = 44
	AH          Protocol = 51
	ICMPv6      Protocol = 58
	NoNext      Protocol = 59
	DestOptions Protocol = 60
)

// Header lengths in bytes.
const (
	EthernetLen = 14
	IPv4Len     = 20 // without options
	IPv6Len     = 40
)

// Ethernet is an Ethernet II header.
type Ethernet [EthernetLen]byte

func (h *Ethernet) Type() EtherType { return EtherType(binary.BigEndian.Uint16(h[12:14])) }

// SetType writes the type.
func (h *Ethernet) SetType(t EtherType) { binary.BigEndian.PutUint16(h[12:14], uint16(t)) }

// SetMACs writes both addresses, each in the lower 48 bits with the first byte at the top.
func (h *Ethernet) SetMACs(dst, src uint64) {
	binary.BigEndian.PutUint64(h[0:8], dst<<16|src>>32)
	binary.BigEndian.PutUint32(h[8:12], uint32(src))
}

// IPv4 is an IPv4 header without options.
type IPv4 [IPv4Len]byte

func (h *IPv4) Version() int       { return int(h[0] >> 4) }
func (h *IPv4) HeaderLen() int     { return int(h[0]&0xf) * 4 }
func (h *IPv4) TotalLen() int      { return int(binary.BigEndian.Uint16(h[2:4])) }
func (h *IPv4) TTL() uint8         { return h[8] }
func (h *IPv4) Protocol() Protocol { return Protocol(h[9]) }
func (h *IPv4) Src() uint32        { return binary.BigEndian.Uint32(h[12:16]) }
func (h *IPv4) Dst() uint32        { return binary.BigEndian.Uint32(h[16:20]) }

// FragmentOffset returns the offset in units of 8 bytes.
func (h *IPv4) FragmentOffset() int { return int(binary.BigEndian.Uint16(h[6:8]) & 0x1fff) }

// Fragmented reports whether the packet is a fragment, the first included.
func (h *IPv4) Fragmented() bool { return binary.BigEndian.Uint16(h[6:8])&0x3fff != 0 }

// ChecksumOK verifies the checksum of a header without options.
func (h *IPv4) ChecksumOK() bool {
	// Byte order makes no difference (RFC 1071 section 2B), and a sum with end-around carry is the sum
	// modulo 2^16-1. Only zeros sum to 0.
	a := binary.LittleEndian.Uint64(h[0:8])
	b := binary.LittleEndian.Uint64(h[8:16])
	s := a>>32 + a&0xffffffff + b>>32 + b&0xffffffff + uint64(binary.LittleEndian.Uint32(h[16:20]))
	return s != 0 && s%0xffff == 0
}

// DecrementTTL decrements the TTL and updates the checksum by RFC 1624 equation 3:
// HC' = ~(~HC + ~m + m'). The checksum must be valid; the result equals a recomputation.
func (h *IPv4) DecrementTTL() {
	m := binary.BigEndian.Uint16(h[8:10])
	hc := binary.BigEndian.Uint16(h[10:12])
	binary.BigEndian.PutUint16(h[10:12], UpdateChecksum(hc, m, m-0x100))
	h[8]--
}

// IncrementTTL increments the TTL of a packet that the router creates and then forwards.
func (h *IPv4) IncrementTTL() {
	h[8]++
	sum := uint32(^binary.BigEndian.Uint16(h[10:12])) + 1<<8
	binary.BigEndian.PutUint16(h[10:12], ^uint16(sum+sum>>16))
}

// ClearDF clears Don't Fragment and updates the checksum, which must be valid.
func (h *IPv4) ClearDF() {
	word := binary.BigEndian.Uint16(h[6:8])
	hc := binary.BigEndian.Uint16(h[10:12])
	binary.BigEndian.PutUint16(h[10:12], UpdateChecksum(hc, word, word&^0x4000))
	h[6] &^= 0x40
}

// IPv6 is an IPv6 header.
type IPv6 [IPv6Len]byte

func (h *IPv6) Version() int         { return int(h[0] >> 4) }
func (h *IPv6) PayloadLen() int      { return int(binary.BigEndian.Uint16(h[4:6])) }
func (h *IPv6) NextHeader() Protocol { return Protocol(h[6]) }
func (h *IPv6) HopLimit() uint8      { return h[7] }
func (h *IPv6) Src() [16]byte        { return [16]byte(h[8:24]) }
func (h *IPv6) Dst() [16]byte        { return [16]byte(h[24:40]) }
func (h *IPv6) DecrementHopLimit()   { h[7]-- }
