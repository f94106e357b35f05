package afxdp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// esp returns a packet to dst of a protocol, with 16 bytes that contain, if UDP, a destination port
// and an SPI.
func esp(dst netip.Addr, protocol byte, port uint16, spi byte) []byte {
	payload := make([]byte, 16)
	binary.BigEndian.PutUint16(payload[2:], port)
	payload[11] = spi
	if dst.Is6() {
		return ip6(hosts6, dst, protocol, payload...)
	}
	b := append(ip4(dst, 0)[:20], payload...)
	b[9] = protocol
	return b
}

var gatewayTests = []struct {
	rule      string
	frame     []byte
	no, taken Decision // for a router, for a gateway
}{
	{"ESP to us", eth(portMAC, ipv4, esp(own4, unix.IPPROTO_ESP, 0, 0)), Local, ToSocket},
	{"a fragment of ESP to us", eth(portMAC, ipv4, with(esp(own4, unix.IPPROTO_ESP, 0, 0), 7, 9)), Local, ToSocket},
	{"ESP to us by IPv6", eth(portMAC, ipv6, esp(own6, unix.IPPROTO_ESP, 0, 0)), Local, ToSocket},
	{"a fragment of ESP to us by IPv6", eth(portMAC, ipv6, ip6(hosts6, own6, unix.IPPROTO_FRAGMENT, unix.IPPROTO_ESP, 0, 0, 1, 0, 0, 0, 9)), Local, ToSocket},
	{"a fragment of UDP to us by IPv6", eth(portMAC, ipv6, ip6(hosts6, own6, unix.IPPROTO_FRAGMENT, unix.IPPROTO_UDP, 0, 0, 1, 0, 0, 0, 9)), Local, Local},
	{"ESP in UDP to us", eth(portMAC, ipv4, esp(own4, unix.IPPROTO_UDP, 4500, 1)), Local, ToSocket},
	{"ESP in UDP to us by IPv6", eth(portMAC, ipv6, esp(own6, unix.IPPROTO_UDP, 4500, 1)), Local, ToSocket},
	{"IKE behind a NAT", eth(portMAC, ipv4, esp(own4, unix.IPPROTO_UDP, 4500, 0)), Local, Local},
	{"IKE", eth(portMAC, ipv4, esp(own4, unix.IPPROTO_UDP, 500, 1)), Local, Local},
	{"a keepalive", eth(portMAC, ipv4, esp(own4, unix.IPPROTO_UDP, 4500, 1)[:29]), Local, Local},
	{"a fragment that shows ESP in UDP", eth(portMAC, ipv4, with(esp(own4, unix.IPPROTO_UDP, 4500, 1), 6, 0x20)), Local, ToSocket},
	{"a fragment of UDP that shows less", eth(portMAC, ipv4, with(esp(own4, unix.IPPROTO_UDP, 4500, 1), 6, 0x20)[:28]), Local, Local},
	{"a fragment of IKE behind a NAT", eth(portMAC, ipv4, with(esp(own4, unix.IPPROTO_UDP, 4500, 0), 6, 0x20)), Local, Local},
	{"TCP to us", eth(portMAC, ipv4, esp(own4, unix.IPPROTO_TCP, 4500, 1)), Local, Local},
	{"ESP to others", eth(portMAC, ipv4, esp(far4, unix.IPPROTO_ESP, 0, 0)), ToSocket, ToSocket},
}

func TestGatewaysTakeESP(t *testing.T) {
	s := openWith(t, own4, own6)
	p := s.Ports[0]
	actions := map[Decision]uint32{ToSocket: xdpRedirect, Local: xdpPass}
	for _, c := range gatewayTests {
		expect(t, p, "no gateway: "+c.rule, c.frame, c.no, actions[c.no])
	}
	require.NoError(t, s.Guard())
	for _, c := range gatewayTests {
		expect(t, p, c.rule, c.frame, c.taken, actions[c.taken])
	}
}

// part returns a fragment, at an offset in units of 8 bytes, of UDP from and to port 4500 that
// begins with an SPI.
func part(dst netip.Addr, id byte, offset uint16, spi byte) []byte {
	b := esp(dst, unix.IPPROTO_UDP, 4500, spi)
	if offset != 0 {
		clear(b[len(b)-16:]) // a later fragment has neither ports nor an SPI
	}
	if dst.Is4() {
		b[5] = id
		binary.BigEndian.PutUint16(b[6:], offset|0x2000)
		return eth(portMAC, ipv4, b)
	}
	b[6] = unix.IPPROTO_FRAGMENT
	header := []byte{unix.IPPROTO_UDP, 0, byte(offset >> 5), byte(offset<<3 | 1), 0, 0, 0, id}
	return eth(portMAC, ipv6, b[:40], header, b[40:])
}

// Later fragments of UDP go where the first one went, on any port.
func TestFragmentsFollowTheFirst(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	s := open(t, Config{Ports: ports(Native, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	for _, p := range s.Ports {
		require.NoError(t, p.SetMAC(portMAC))
	}
	require.NoError(t, s.Guard())
	actions := map[Decision]uint32{ToSocket: xdpRedirect, Local: xdpPass}
	const at, natt, ike = 100, 1, 0
	for _, own := range []netip.Addr{own4, own6} {
		require.NoError(t, s.AddLocal(own))
		for _, c := range []struct {
			rule  string
			port  int
			frame []byte
			want  Decision
		}{
			{"a later fragment before the first", 0, part(own, 7, at, 0), Local},
			{"the first of ESP", 0, part(own, 7, 0, natt), ToSocket},
			{"the next", 0, part(own, 7, at, 0), ToSocket},
			{"one at another port", 1, part(own, 7, 2*at, 0), ToSocket},
			{"one of another datagram", 0, part(own, 8, at, 0), Local},
			{"the first of IKE", 0, part(own, 8, 0, ike), Local},
			{"the next of IKE", 0, part(own, 8, at, 0), Local},
			{"the first of IKE, with an identification that ESP had", 0, part(own, 7, 0, ike), Local},
			{"the next of that", 0, part(own, 7, at, 0), Local},
		} {
			expect(t, s.Ports[c.port], own.String()+": "+c.rule, c.frame, c.want, actions[c.want])
		}
	}
	expect(t, s.Ports[0], "the first of ESP", part(own4, 9, 0, natt), ToSocket, xdpRedirect)
	other := part(own4, 9, at, 0)
	other[len(other)-16-8]++ // its source
	expect(t, s.Ports[0], "another source", other, Local, xdpPass)
}
