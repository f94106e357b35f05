package numbered

import (
	"encoding/binary"
	"net"

	"github.com/warproute/warproute/packet"
)

const (
	udpLen  = 8
	ttl     = 64
	srcPort = 1024 // of flow 0
)

// template is packet 0 of a flow. Frames of both families have one length, so that
// IPv4's payload is the longer.
func template(number int, flow Flow, srcMAC, dstMAC net.HardwareAddr) []byte {
	f := make([]byte, FrameLen)
	copy(f, dstMAC)
	copy(f[6:], srcMAC)
	ip, udp := f[packet.EthernetLen:], f[packet.EthernetLen+packet.IPv6Len:]
	var addrs []byte
	if flow.Dst.Is4() {
		(*packet.Ethernet)(f).SetType(packet.EtherTypeIPv4)
		udp = ip[packet.IPv4Len:]
		ip[0], ip[8], ip[9] = 0x45, ttl, byte(packet.UDP)
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		addrs = ip[12:20]
	} else {
		(*packet.Ethernet)(f).SetType(packet.EtherTypeIPv6)
		ip[0], ip[6], ip[7] = 0x60, byte(packet.UDP), ttl
		binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
		addrs = ip[8:40]
	}
	copy(addrs, flow.Src.AsSlice())
	copy(addrs[len(addrs)/2:], flow.Dst.AsSlice())
	if flow.Dst.Is4() {
		binary.BigEndian.PutUint16(ip[10:], packet.Checksum(ip[:packet.IPv4Len]))
	}
	binary.BigEndian.PutUint16(udp, uint16(srcPort+number))
	binary.BigEndian.PutUint16(udp[2:], port)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	binary.BigEndian.PutUint32(udp[udpLen:], uint32(number))
	pseudo := append([]byte{0, byte(packet.UDP), byte(len(udp) >> 8), byte(len(udp))}, addrs...)
	binary.BigEndian.PutUint16(udp[6:], packet.Checksum(append(pseudo, udp...)))
	return f
}
