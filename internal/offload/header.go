// Package offload merges packets of one flow to large ones for the host's network stack, and splits large
// packets of the host, with the header that Linux puts in front of them on a TUN interface (struct
// virtio_net_hdr, virtio specification section 5.1.6).
//
// Merging follows tcp_gro_receive and udp_gro_receive of Linux, and is stricter: packets that Split made of
// a merged packet equal the merged ones in every byte. Packets with wrong checksums are never merged.
package offload

import (
	"encoding/binary"

	"github.com/warproute/warproute/packet"
)

// HeaderLen is the length of a Header in front of a packet, in bytes.
const HeaderLen = 10

// MaxPacket is the length of the longest packet, in bytes, without its Header.
const MaxPacket = 1<<16 - 1

// Values of Header.Flags and Header.Type (linux/virtio_net.h).
const (
	NeedsChecksum = 1 // the checksum covers the packet from ChecksumStart, and its field has the sum of the pseudo-header

	None = 0
	TCP4 = 1
	TCP6 = 4
	UDP  = 5    // UDP_L4: a large packet is several datagrams
	ECN  = 0x80 // of TCP: the first segment has CWR
)

// Header describes a packet: its incomplete checksum, and the segments that it is to be split into.
type Header struct {
	Flags, Type    uint8
	HeaderLen      uint16 // of IP and TCP or UDP, in bytes
	SegmentSize    uint16 // payload of a segment, in bytes
	ChecksumStart  uint16 // offset of the TCP or UDP header, in bytes
	ChecksumOffset uint16 // of the checksum field, from there
}

// Put writes the header in the byte order of the host.
func (h Header) Put(b *[HeaderLen]byte) {
	b[0], b[1] = h.Flags, h.Type
	for i, v := range [...]uint16{h.HeaderLen, h.SegmentSize, h.ChecksumStart, h.ChecksumOffset} {
		binary.NativeEndian.PutUint16(b[2+2*i:], v)
	}
}

// ParseHeader reads a header.
func ParseHeader(b *[HeaderLen]byte) Header {
	word := func(i int) uint16 { return binary.NativeEndian.Uint16(b[2+2*i:]) }
	return Header{b[0], b[1], word(0), word(1), word(2), word(3)}
}

// Bits of the flags byte of TCP.
const (
	fin = 1 << 0
	psh = 1 << 3
	ack = 1 << 4
	ece = 1 << 6
	cwr = 1 << 7
)

const (
	tcpLen         = 20 // without options
	udpLen         = 8
	checksumInTCP  = 16 // offset of the checksum field
	checksumInUDP  = 6
	maxUDPSegments = 64 // UDP_MAX_SEGMENTS of Linux before 6.9
	maxTCPSegments = 512
)

// addresses returns source and destination of an IP packet, for the pseudo-header.
func addresses(p []byte) []byte {
	if p[0]>>4 == 4 {
		return p[12:20]
	}
	return p[8:40]
}

// pseudoSum returns the sum of the pseudo-header of n bytes from the TCP or UDP header on.
func pseudoSum(p []byte, proto packet.Protocol, n int) uint16 {
	return addSums(addSums(packet.Sum(addresses(p)), uint16(proto)), uint16(n))
}

// addSums adds two ones' complement sums.
func addSums(a, b uint16) uint16 {
	s := uint32(a) + uint32(b)
	return uint16(s>>16 + s&0xffff)
}
