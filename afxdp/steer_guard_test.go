package afxdp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// tagged returns a frame with VLAN tags of these types before an EtherType and payload.
func tagged(tags []uint16, etherType uint16, payload []byte) []byte {
	var between []byte
	for _, next := range append(tags[1:len(tags):len(tags)], etherType) {
		between = append(between, 0, 5, byte(next>>8), byte(next))
	}
	return eth(portMAC, tags[0], between, payload)
}

var (
	one   = []uint16{unix.ETH_P_8021Q}
	two   = []uint16{unix.ETH_P_8021AD, unix.ETH_P_8021Q}
	three = []uint16{unix.ETH_P_8021AD, unix.ETH_P_8021Q, unix.ETH_P_8021Q}
	group = netip.MustParseAddr("224.0.0.5")
	allOn = netip.MustParseAddr("255.255.255.255")
	ff02  = netip.MustParseAddr("ff02::5")
)

var guardTests = []struct {
	rule   string
	frame  []byte
	router Decision // without IPsec
	want   Decision // of a gateway
}{
	{"options to elsewhere", eth(portMAC, ipv4, ip4(far4, 1)), IPv4Options, TransitIPv4Options},
	{"ten words of options to elsewhere", eth(portMAC, ipv4, ip4(far4, 10)), IPv4Options, TransitIPv4Options},
	{"options to us (ping -R)", eth(portMAC, ipv4, ip4(own4, 1)), IPv4Options, IPv4Options},
	{"options to our subnet's broadcast", eth(portMAC, ipv4, ip4(subnet4, 1)), IPv4Options, IPv4Options},
	{"router alert to a group (IGMP)", eth(portMAC, ipv4, ip4(group, 1)), IPv4Options, IPv4Options},
	{"options to the limited broadcast", eth(portMAC, ipv4, ip4(allOn, 1)), IPv4Options, IPv4Options},

	{"tag, IPv4 to elsewhere", tagged(one, ipv4, ip4(far4, 0)), VLAN, TransitVLAN},
	{"tag, IPv6 to elsewhere", tagged(one, ipv6, udp6(hosts6, far6)), VLAN, TransitVLAN},
	{"tag, options to elsewhere", tagged(one, ipv4, ip4(far4, 1)), VLAN, TransitVLAN},
	{"tag, IPv4 to us", tagged(one, ipv4, ip4(own4, 0)), VLAN, VLAN},
	{"tag, IPv6 to us", tagged(one, ipv6, udp6(hosts6, own6)), VLAN, VLAN},
	{"tag, IPv4 to a group", tagged(one, ipv4, ip4(group, 0)), VLAN, VLAN},
	{"tag, IPv6 to a group", tagged(one, ipv6, udp6(hosts6, ff02)), VLAN, VLAN},
	{"tag, IPv6 to a link-local address", tagged(one, ipv6, udp6(linkloc6, linkloc6)), VLAN, VLAN},
	{"tag, ARP", tagged(one, unix.ETH_P_ARP, make([]byte, 28)), VLAN, VLAN},
	{"tag, MPLS", tagged(one, unix.ETH_P_MPLS_UC, make([]byte, 28)), VLAN, TransitVLAN},
	{"tag, IPv4 cut short", tagged(one, ipv4, ip4(own4, 0)[:19]), VLAN, TransitVLAN},
	{"tag, IPv6 cut short", tagged(one, ipv6, udp6(hosts6, own6)[:39]), VLAN, TransitVLAN},
	{"tag, IPv6 under IPv4's type", tagged(one, ipv4, with(ip4(own4, 0), 0, 0x65)), VLAN, TransitVLAN},
	{"tag cut short", eth(portMAC, unix.ETH_P_8021Q, []byte{0, 5, 8}), VLAN, TransitVLAN},
	{"two tags, IPv4 to elsewhere", tagged(two, ipv4, ip4(far4, 0)), VLAN, TransitVLAN},
	{"two tags, IPv4 to us", tagged(two, ipv4, ip4(own4, 0)), VLAN, VLAN},
	{"two tags, ARP", tagged(two, unix.ETH_P_ARP, make([]byte, 28)), VLAN, VLAN},
	{"two tags, the second cut short", eth(portMAC, unix.ETH_P_8021AD, []byte{0, 5, 0x81, 0, 0}), VLAN, TransitVLAN},
	{"three tags, IPv4 to elsewhere", tagged(three, ipv4, ip4(far4, 0)), VLAN, TransitVLAN},
	{"three tags, IPv4 to us", tagged(three, ipv4, ip4(own4, 0)), VLAN, TransitVLAN},

	{"IPv4 to another MAC", eth(otherMAC, ipv4, ip4(far4, 0)), OtherMAC, TransitOtherMAC},
	{"IPv6 to another MAC", eth(otherMAC, ipv6, udp6(hosts6, far6)), OtherMAC, TransitOtherMAC},
	{"options to another MAC", eth(otherMAC, ipv4, ip4(far4, 1)), OtherMAC, TransitOtherMAC},
	{"unicast in a broadcast frame", eth(broadcastMAC, ipv4, ip4(far4, 0)), OtherMAC, TransitOtherMAC},
	{"IPv4 to us by another MAC (VRRP)", eth(otherMAC, ipv4, ip4(own4, 0)), OtherMAC, OtherMAC},
	{"IPv6 to us by another MAC", eth(otherMAC, ipv6, udp6(hosts6, own6)), OtherMAC, OtherMAC},
	{"DHCP", eth(broadcastMAC, ipv4, ip4(allOn, 0)), OtherMAC, OtherMAC},
	{"OSPF", eth([6]byte{1, 0, 0x5e, 0, 0, 5}, ipv4, ip4(group, 0)), OtherMAC, OtherMAC},
	{"neighbour solicitation", eth([6]byte{0x33, 0x33, 0xff, 0, 0, 1}, ipv6, icmp6(netip.MustParseAddr("ff02::1:ff00:1"), 135)), OtherMAC, OtherMAC},
	{"IPv4 cut short to another MAC", eth(otherMAC, ipv4, ip4(own4, 0)[:19]), OtherMAC, TransitOtherMAC},

	{"ARP", eth(broadcastMAC, unix.ETH_P_ARP, make([]byte, 28)), EtherType, EtherType},
	{"LLDP", eth([6]byte{1, 0x80, 0xc2, 0, 0, 0xe}, unix.ETH_P_LLDP, make([]byte, 46)), EtherType, EtherType},
	{"LACP", eth([6]byte{1, 0x80, 0xc2, 0, 0, 2}, unix.ETH_P_SLOW, make([]byte, 46)), EtherType, EtherType},
	{"MPLS", eth(portMAC, unix.ETH_P_MPLS_UC, make([]byte, 46)), EtherType, TransitEtherType},
	{"MPLS multicast", eth(portMAC, unix.ETH_P_MPLS_MC, make([]byte, 46)), EtherType, TransitEtherType},

	{"from our IPv4 address", eth(portMAC, ipv4, from(own4, ip4(far4, 0))), OwnSource, TransitOwnSource},
	{"from our IPv6 address", eth(portMAC, ipv6, udp6(own6, far6)), OwnSource, TransitOwnSource},
	{"from us to us", eth(portMAC, ipv4, from(own4, ip4(own4, 0))), Local, Local},
	{"from a link-local address to elsewhere", eth(portMAC, ipv6, udp6(linkloc6, far6)), LinkLocal, TransitLinkLocal},
	{"from a link-local address to us", eth(portMAC, ipv6, udp6(linkloc6, own6)), LinkLocal, LinkLocal},
	{"to a link-local address", eth(portMAC, ipv6, udp6(hosts6, linkloc6)), LinkLocal, LinkLocal},
	{"neighbour solicitation to elsewhere", eth(portMAC, ipv6, icmp6(far6, 135)), NeighborDiscovery, TransitNeighborDiscovery},
	{"neighbour advertisement to us", eth(portMAC, ipv6, icmp6(own6, 136)), Local, Local},

	{"our IPv4 address", eth(portMAC, ipv4, ip4(own4, 0)), Local, Local},
	{"a group", eth(portMAC, ipv4, ip4(group, 0)), Multicast, Multicast},
	{"an IPv6 group", eth(portMAC, ipv6, udp6(hosts6, ff02)), Multicast, Multicast},
	{"the limited broadcast", eth(portMAC, ipv4, ip4(allOn, 0)), Broadcast, Broadcast},
	{"IPv4 to elsewhere", eth(portMAC, ipv4, ip4(far4, 0)), ToSocket, ToSocket},
	{"IPv6 to elsewhere", eth(portMAC, ipv6, udp6(hosts6, far6)), ToSocket, ToSocket},
}

func actionOf(d Decision) uint32 {
	switch {
	case d == ToSocket:
		return xdpRedirect
	case d.Linux():
		return xdpPass
	}
	return xdpDrop
}

// A gateway passes packets for the host to Linux, and drops those that Linux could forward.
func TestGatewayPassesNoTransitToLinux(t *testing.T) {
	s := openWith(t, own4, subnet4, own6)
	p := s.Ports[0]
	for _, c := range guardTests {
		expect(t, p, "no gateway: "+c.rule, c.frame, c.router, actionOf(c.router))
	}
	require.NoError(t, s.Guard())
	seen := map[Decision]bool{}
	for _, c := range guardTests {
		expect(t, p, c.rule, c.frame, c.want, actionOf(c.want))
		seen[c.want] = true
	}
	if err := p.Pause(); err != nil { // to a VRF of Linux
		t.Fatal(err)
	}
	expect(t, p, "lent: IPv4 to elsewhere", eth(portMAC, ipv4, ip4(far4, 0)), TransitOtherMAC, xdpDrop)
	expect(t, p, "lent: IPv4 to us", eth(portMAC, ipv4, ip4(own4, 0)), OtherMAC, xdpPass)
	for d := range Decision(NumDecisions) {
		if d.Transit() && !seen[d] {
			t.Errorf("no frame is dropped as %v", d)
		}
	}
}
