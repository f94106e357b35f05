package testbed

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/packet"
)

// PutEthernet writes the Ethernet header of a frame to the router.
func PutEthernet(f []byte, ipv6 bool) {
	binary.BigEndian.PutUint64(f, 0x020000000001_0200) // both addresses; the source ends in zeros
	clear(f[8:12])
	kind := packet.EtherTypeIPv4
	if ipv6 {
		kind = packet.EtherTypeIPv6
	}
	binary.BigEndian.PutUint16(f[12:], uint16(kind))
}

// PutIP writes the header of a packet, with don't fragment and no DSCP.
func PutIP(p []byte, src, dst netip.Addr, next packet.Protocol, hops byte, id uint16) {
	if src.Is4() {
		h := p[:packet.IPv4Len]
		copy(h, []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, hops, byte(next), 0, 0})
		binary.BigEndian.PutUint16(h[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(h[4:], id)
		copy(h[12:], src.AsSlice())
		copy(h[16:], dst.AsSlice())
		binary.BigEndian.PutUint16(h[10:], checksum(h))
		return
	}
	copy(p, []byte{0x60, 0, 0, 0, 0, 0, byte(next), hops})
	binary.BigEndian.PutUint16(p[4:], uint16(len(p)-packet.IPv6Len))
	copy(p[8:], src.AsSlice())
	copy(p[24:], dst.AsSlice())
}

// checksum returns the checksum of an IPv4 header whose checksum is zero (RFC 791). It shares no
// code with the router.
func checksum(h []byte) uint16 {
	var sum uint32
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// Hop returns a copy of a frame with one hop less, and the old Ethernet header.
func Hop(f []byte) []byte {
	f = bytes.Clone(f)
	p := f[packet.EthernetLen:]
	if p[0]>>4 == 6 {
		p[7]--
		return f
	}
	p[8]--
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], checksum(p[:packet.IPv4Len]))
	return f
}

// Forwarded returns a frame as a router with the routes of the oracle transmits it.
func Forwarded(f []byte, truth *oracle.Ranges[int]) []byte {
	f = Hop(f)
	p := f[packet.EthernetLen:]
	if p[0]>>4 == 4 {
		PutEgress(f, netip.AddrFrom4([4]byte(p[16:20])), truth)
	} else {
		PutEgress(f, netip.AddrFrom16([16]byte(p[24:40])), truth)
	}
	return f
}

// PutEgress writes the Ethernet header of a transmitted frame to an address.
func PutEgress(f []byte, to netip.Addr, truth *oracle.Ranges[int]) {
	PutEthernet(f, to.Is6())
	peer, _ := truth.Lookup(to)
	putMACs(f, PeerMAC(peer))
}

// putMACs writes the addresses of a transmitted frame.
func putMACs(f []byte, dst fib.MAC) {
	src := RouterMAC
	for i := range 6 {
		f[i], f[6+i] = byte(dst>>(40-8*i)), byte(src>>(40-8*i))
	}
}
