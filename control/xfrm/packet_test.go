package xfrm

import (
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/packet"
)

// echo returns an ICMP echo request.
func echo(src, dst netip.Addr, seq uint16) []byte {
	const headers = packet.IPv4Len + 8
	p := make([]byte, headers+32)
	p[0], p[8], p[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	copy(p[12:], src.AsSlice())
	copy(p[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:packet.IPv4Len]))
	l4 := p[packet.IPv4Len:]
	l4[0] = 8
	binary.BigEndian.PutUint16(l4[6:], seq)
	binary.BigEndian.PutUint16(l4[2:], packet.Checksum(l4))
	return p
}
