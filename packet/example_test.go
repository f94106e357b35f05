package packet_test

import (
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/packet"
)

// A received frame is forwarded: its TTL is decremented and its MAC addresses are replaced, in place.
func Example() {
	frame := []byte{
		0x02, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0, 0, 0x0a, 0x08, 0x00, // Ethernet
		0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7, // IPv4
		0x30, 0x39, 0x00, 0x35, 0, 8, 0, 0, // UDP
	}
	ip := (*packet.IPv4)(frame[packet.EthernetLen:])
	sum := packet.Checksum(ip[:])
	ip[10], ip[11] = byte(sum>>8), byte(sum)

	ip.DecrementTTL()
	(*packet.Ethernet)(frame).SetMACs(0x02000000000b, 0x020000000002)

	fmt.Println("to", netip.AddrFrom4([4]byte(ip[16:])), "TTL", ip.TTL(), "checksum valid:", ip.ChecksumOK())
	fmt.Printf("%x\n", frame[:packet.EthernetLen])
	// Output:
	// to 198.51.100.7 TTL 63 checksum valid: true
	// 02000000000b0200000000020800
}
