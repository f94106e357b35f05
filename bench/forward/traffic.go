package forward

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/packet"
)

// frames returns n frames of the given size in bytes, FCS not counted, each to a
// random address that a random route covers. What they carry is random, and the same: so
// a tape of them is a quarter as long.
func frames(rnd *rand.Rand, routes []bed.Route, n, size int) [][]byte {
	out := make([][]byte, n)
	like := make([]byte, size)
	for j := range like {
		like[j] = byte(rnd.Uint32())
	}
	binary.BigEndian.PutUint64(like, 0x020000000001_0200) // both link addresses; the source's tail is zero
	clear(like[8:packet.EthernetLen])
	for i := range out {
		f := bytes.Clone(like)
		if to := bed.Destination(rnd, routes); to.Is6() {
			writeIPv6(f, to)
		} else {
			writeIPv4(f, to)
		}
		out[i] = f
	}
	return out
}

func writeIPv4(f []byte, to netip.Addr) {
	binary.BigEndian.PutUint16(f[12:], uint16(packet.EtherTypeIPv4))
	h := f[packet.EthernetLen : packet.EthernetLen+packet.IPv4Len]
	copy(h, []byte{0x45, 0})
	binary.BigEndian.PutUint16(h[2:], uint16(len(f)-packet.EthernetLen))
	copy(h[6:], []byte{0x40, 0, 64, byte(packet.UDP), 0, 0, 10})
	copy(h[16:], to.AsSlice())
	binary.BigEndian.PutUint16(h[10:], packet.Checksum(h))
}

func writeIPv6(f []byte, to netip.Addr) {
	binary.BigEndian.PutUint16(f[12:], uint16(packet.EtherTypeIPv6))
	h := f[packet.EthernetLen : packet.EthernetLen+packet.IPv6Len]
	copy(h, []byte{0x60, 0, 0, 0})
	binary.BigEndian.PutUint16(h[4:], uint16(len(f)-packet.EthernetLen-packet.IPv6Len))
	copy(h[6:], []byte{byte(packet.UDP), 64, 0x20, 0x01, 0x0d, 0xb8})
	copy(h[24:], to.AsSlice())
}
