package afxdp

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

var steerTests = []struct {
	rule  string
	frame []byte
	want  Decision
}{
	{"IPv4 to elsewhere is ours", eth(portMAC, ipv4, ip4(far4, 0)), ToSocket},
	{"IPv6 to elsewhere is ours", eth(portMAC, ipv6, udp6(hosts6, far6)), ToSocket},

	{"ARP request", eth(broadcastMAC, unix.ETH_P_ARP, make([]byte, 28)), EtherType},
	{"ARP reply to us", eth(portMAC, unix.ETH_P_ARP, make([]byte, 28)), EtherType},
	{"LLDP", eth([6]byte{1, 0x80, 0xc2, 0, 0, 0xe}, 0x88cc, make([]byte, 46)), EtherType},
	{"802.3 length instead of a type", eth(portMAC, 46, make([]byte, 46)), EtherType},
	{"MPLS", eth(portMAC, 0x8847, make([]byte, 46)), EtherType},
	{"a frame of the Ethernet header alone", eth(portMAC, unix.ETH_P_ARP), EtherType},
	{"802.1Q tag", eth(portMAC, unix.ETH_P_8021Q, []byte{0, 5, 8, 0}, ip4(far4, 0)), VLAN},
	{"802.1ad tag", eth(portMAC, unix.ETH_P_8021AD, []byte{0, 5, 8, 0}, ip4(far4, 0)), VLAN},

	{"IPv4 to another MAC", eth(otherMAC, ipv4, ip4(far4, 0)), OtherMAC},
	{"IPv6 to another MAC", eth(otherMAC, ipv6, udp6(hosts6, far6)), OtherMAC},
	{"MAC that differs in its first byte", eth([6]byte{6, 0, 0, 0, 0, 1}, ipv4, ip4(far4, 0)), OtherMAC},
	{"IPv4 to the broadcast MAC", eth(broadcastMAC, ipv4, ip4(far4, 0)), OtherMAC},
	{"IPv4 to a multicast MAC", eth([6]byte{1, 0, 0x5e, 0, 0, 5}, ipv4, ip4(netip.MustParseAddr("224.0.0.5"), 0)), OtherMAC},
	{"IPv6 to a multicast MAC", eth([6]byte{0x33, 0x33, 0, 0, 0, 1}, ipv6, udp6(hosts6, netip.MustParseAddr("ff02::1"))), OtherMAC},

	{"one word of IPv4 options", eth(portMAC, ipv4, ip4(far4, 1)), IPv4Options},
	{"ten words of IPv4 options", eth(portMAC, ipv4, ip4(far4, 10)), IPv4Options},
	{"IPv4 options said, header cut", eth(portMAC, ipv4, ip4(far4, 10)[:20]), IPv4Options},
	{"our IPv4 address", eth(portMAC, ipv4, ip4(own4, 0)), Local},
	{"our subnet's broadcast", eth(portMAC, ipv4, ip4(subnet4, 0)), Local},
	{"the address below ours", eth(portMAC, ipv4, ip4(own4.Prev(), 0)), ToSocket},
	{"from our IPv4 address", eth(portMAC, ipv4, from(own4, ip4(far4, 0))), OwnSource},
	{"from our subnet's broadcast", eth(portMAC, ipv4, from(subnet4, ip4(far4, 0))), OwnSource},
	{"from our IPv6 address", eth(portMAC, ipv6, udp6(own6, far6)), OwnSource},
	{"from the address below ours", eth(portMAC, ipv4, from(own4.Prev(), ip4(far4, 0))), ToSocket},
	{"from the IPv6 address above ours", eth(portMAC, ipv6, udp6(own6.Next(), far6)), ToSocket},
	{"from us to us", eth(portMAC, ipv4, from(own4, ip4(own4, 0))), Local},
	{"224.0.0.0, the first group", eth(portMAC, ipv4, ip4(netip.MustParseAddr("224.0.0.0"), 0)), Multicast},
	{"239.255.255.255, the last group", eth(portMAC, ipv4, ip4(netip.MustParseAddr("239.255.255.255"), 0)), Multicast},
	{"223.255.255.255, below the groups", eth(portMAC, ipv4, ip4(netip.MustParseAddr("223.255.255.255"), 0)), ToSocket},
	{"240.0.0.0, above the groups", eth(portMAC, ipv4, ip4(netip.MustParseAddr("240.0.0.0"), 0)), ToSocket},
	{"limited broadcast", eth(portMAC, ipv4, ip4(netip.MustParseAddr("255.255.255.255"), 0)), Broadcast},

	{"our IPv6 address", eth(portMAC, ipv6, udp6(hosts6, own6)), Local},
	{"neighbour solicitation to our address", eth(portMAC, ipv6, icmp6(own6, 135)), Local},
	{"the address above ours", eth(portMAC, ipv6, udp6(hosts6, own6.Next())), ToSocket},
	{"IPv6 group", eth(portMAC, ipv6, udp6(hosts6, netip.MustParseAddr("ff02::1:ff00:1"))), Multicast},
	{"to a link-local address", eth(portMAC, ipv6, udp6(hosts6, linkloc6)), LinkLocal},
	{"from a link-local address", eth(portMAC, ipv6, udp6(linkloc6, far6)), LinkLocal},
	{"febf::, the end of link-local", eth(portMAC, ipv6, udp6(hosts6, netip.MustParseAddr("febf::1"))), LinkLocal},
	{"fec0::, above link-local", eth(portMAC, ipv6, udp6(hosts6, netip.MustParseAddr("fec0::1"))), ToSocket},
	{"fe7f::, below link-local", eth(portMAC, ipv6, udp6(hosts6, netip.MustParseAddr("fe7f::1"))), ToSocket},
	{"router solicitation", eth(portMAC, ipv6, icmp6(far6, 133)), NeighborDiscovery},
	{"neighbour advertisement", eth(portMAC, ipv6, icmp6(far6, 136)), NeighborDiscovery},
	{"redirect", eth(portMAC, ipv6, icmp6(far6, 137)), NeighborDiscovery},
	{"ICMPv6 type 132, no discovery", eth(portMAC, ipv6, icmp6(far6, 132)), ToSocket},
	{"ICMPv6 type 138, no discovery", eth(portMAC, ipv6, icmp6(far6, 138)), ToSocket},
	{"ICMPv6 echo", eth(portMAC, ipv6, icmp6(far6, 128)), ToSocket},
	{"UDP whose first byte is 135", eth(portMAC, ipv6, ip6(hosts6, far6, unix.IPPROTO_UDP, 135, 0, 0, 0)), ToSocket},

	{"IPv4 header cut: the engine drops it", eth(portMAC, ipv4, ip4(own4, 0)[:19]), ToSocket},
	{"no IPv4 header: the engine drops it", eth(portMAC, ipv4), ToSocket},
	{"IPv6 header cut: the engine drops it", eth(portMAC, ipv6, udp6(hosts6, own6)[:39]), ToSocket},
	{"ICMPv6 without a type: the engine drops it", eth(portMAC, ipv6, ip6(hosts6, far6, unix.IPPROTO_ICMPV6)), ToSocket},
	{"IPv6 under IPv4's type: the engine drops it", eth(portMAC, ipv4, with(ip4(own4, 0), 0, 0x65)), ToSocket},
	{"IPv4 under IPv6's type: the engine drops it", eth(portMAC, ipv6, with(udp6(hosts6, own6), 0, 0x45)), ToSocket},
	{"IHL below 5: the engine drops it", eth(portMAC, ipv4, with(ip4(far4, 0), 0, 0x44)), ToSocket},
}

// TestSteer runs the XDP program on each frame by BPF_PROG_TEST_RUN, on a queue with a socket and
// on one without.
func TestSteer(t *testing.T) {
	s := openWith(t, own4, subnet4, own6)
	p := s.Ports[0]
	for _, c := range steerTests {
		want, action := c.want, uint32(xdpPass)
		if want == ToSocket {
			action = xdpRedirect
		}
		t.Run(c.rule, func(t *testing.T) { expect(t, p, c.rule, c.frame, want, action) })
	}

	require.NoError(t, p.program.Sockets.Delete(uint32(0)))
	for _, c := range steerTests {
		want, action := c.want, uint32(xdpPass)
		if want == ToSocket {
			want, action = NoSocket, xdpDrop
		}
		expect(t, p, "no socket: "+c.rule, c.frame, want, action)
	}
}

// TestSteerFollowsChanges changes the MAC address and local addresses of a loaded program.
func TestSteerFollowsChanges(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	s := open(t, Config{Ports: ports(Native, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	a, b := s.Ports[0], s.Ports[1]
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}

	expect(t, a, "the interface's own MAC after Open", eth(a.MAC, ipv4, ip4(far4, 0)), ToSocket, xdpRedirect)
	must(a.SetMAC(portMAC))
	expect(t, a, "the new MAC", eth(portMAC, ipv4, ip4(far4, 0)), ToSocket, xdpRedirect)
	expect(t, b, "the new MAC at the other port", eth(portMAC, ipv4, ip4(far4, 0)), OtherMAC, xdpPass)
	must(b.SetMAC(portMAC))

	for _, own := range []struct {
		addr  netip.Addr
		frame []byte
	}{
		{own4, eth(portMAC, ipv4, ip4(own4, 0))},
		{own6, eth(portMAC, ipv6, udp6(hosts6, own6))},
		{netip.MustParseAddr("::ffff:192.0.2.1"), eth(portMAC, ipv4, ip4(own4, 0))},
		{own6.WithZone("a"), eth(portMAC, ipv6, udp6(hosts6, own6))},
	} {
		must(s.AddLocal(own.addr))
		must(s.AddLocal(own.addr)) // adding twice has no effect
		expect(t, a, "added as local", own.frame, Local, xdpPass)
		expect(t, b, "added as local, other port", own.frame, Local, xdpPass)
		must(s.DeleteLocal(own.addr))
		must(s.DeleteLocal(own.addr))
		expect(t, a, "deleted from local", own.frame, ToSocket, xdpRedirect)
		expect(t, b, "deleted from local, other port", own.frame, ToSocket, xdpRedirect)
	}
	swapped := netip.AddrFrom4([4]byte{own4.As4()[2], own4.As4()[3], own4.As4()[0], own4.As4()[1]}) // has the same fold
	must(s.AddLocal(own4))
	must(s.AddLocal(swapped))
	must(s.DeleteLocal(own4))
	expect(t, a, "one of two with the same fold", eth(portMAC, ipv4, ip4(swapped, 0)), Local, xdpPass)
	expect(t, a, "the other one", eth(portMAC, ipv4, ip4(own4, 0)), ToSocket, xdpRedirect)
	if err := s.AddLocal(netip.Addr{}); err == nil {
		t.Error("the zero address was added as local")
	}
}

// TestSteerBeforeAdmission checks that a newly loaded program passes everything to Linux, also
// frames of queues without a socket.
func TestSteerBeforeAdmission(t *testing.T) {
	p, err := loadProgram(0, 1, nil, false)
	require.NoError(t, err)
	defer p.close()
	for _, mac := range [][6]byte{{}, portMAC, broadcastMAC} {
		got, err := p.Steer.Run(&ebpf.RunOptions{Data: eth(mac, ipv4, ip4(far4, 0))})
		require.NoError(t, err)
		if got != xdpPass {
			t.Errorf("frame to %x: action %d, want %d", mac, got, xdpPass)
		}
	}
}

// TestSteerAddressesFull fills the map of local addresses.
func TestSteerAddressesFull(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	a := netip.MustParseAddr("10.0.0.0")
	for range MaxLocal {
		require.NoError(t, s.AddLocal(a))
		a = a.Next()
	}
	const want = "add local address 10.0.64.0: the XDP program's map of local addresses of this family is full"
	if err := s.AddLocal(a); err == nil || err.Error() != want {
		t.Errorf("one address more:\n got %v\nwant %s", err, want)
	}
}
