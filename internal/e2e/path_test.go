package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/packet"
)

// narrowPath is two gateways with a Linux router between them, whose far link has a smaller MTU.
type narrowPath struct {
	client, gatewayA, middle, gatewayB, server *lab.Namespace
	a, b                                       *router
}

const (
	narrowMTU = 1300
	spiOfA    = 0x1000 // of a's outbound IPv4 SA; those of b and of IPv6 follow
)

// narrowEnds are the addresses of the hosts and gateways, by family.
var narrowEnds = []struct{ client, server, a, b string }{
	{"10.1.0.2/24", "10.2.0.2/24", "192.0.2.1/24", "198.51.100.1/24"},
	{"fd01::2/64", "fd02::2/64", "2001:db8:1::1/64", "2001:db8:2::1/64"},
}

// newNarrowPath starts both gateways with further settings of each SA and of IPsec. Routes lead
// to the other side in plaintext, too.
func newNarrowPath(t *testing.T, sa, ipsec string) *narrowPath {
	t.Helper()
	net := build(t, lab.VethOptions{}, `
client eth0 10.1.0.2/24 fd01::2/64 -- a lan0 10.1.0.1/24 fd01::1/64
a wan0 192.0.2.1/24 2001:db8:1::1/64 -- middle near 192.0.2.2/24 2001:db8:1::2/64
server eth0 10.2.0.2/24 fd02::2/64 -- b lan0 10.2.0.1/24 fd02::1/64
client route default 10.1.0.1
client route default fd01::1
server route default 10.2.0.1
server route default fd02::1
a route default 192.0.2.2
a route default 2001:db8:1::2
middle sysctl net.ipv4.ip_forward 1
middle sysctl net.ipv6.conf.all.forwarding 1`)
	if err := net.Add(lab.VethOptions{MTU: narrowMTU}, `
middle far 198.51.100.2/24 2001:db8:2::2/64 -- b wan0 198.51.100.1/24 2001:db8:2::1/64
b route default 198.51.100.2
b route default 2001:db8:2::2`); err != nil {
		t.Fatal(err)
	}
	n := &narrowPath{client: net["client"], gatewayA: net["a"], middle: net["middle"], gatewayB: net["b"], server: net["server"]}
	n.a = startRouter(t, n.gatewayA, "--config", narrowConfig(t, true, sa, ipsec))
	n.b = startRouter(t, n.gatewayB, "--config", narrowConfig(t, false, sa, ipsec))
	return n
}

// gatewayOf returns the first address of a host's network.
func gatewayOf(host string) string {
	p := netip.MustParsePrefix(host)
	return netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits()).String()
}

func narrowConfig(t *testing.T, ofA bool, sa, ipsec string) string {
	t.Helper()
	var sas, policies strings.Builder
	for i, e := range narrowEnds {
		for j, d := range []struct{ src, dst, from, to string }{{e.a, e.b, e.client, e.server}, {e.b, e.a, e.server, e.client}} {
			direction := "in"
			if ofA == (j == 0) {
				direction = "out"
			}
			spi, prefix := spiOfA+2*i+j, netip.MustParsePrefix
			fmt.Fprintf(&sas, "    - {name: sa%d, spi: %#x, direction: %s, src: \"%v\", dst: \"%v\", suite: aes128gcm16, key: %040x%s}\n",
				spi, spi, direction, prefix(d.src).Addr(), prefix(d.dst).Addr(), spi, sa)
			fmt.Fprintf(&policies, "    - {direction: %s, src: \"%v\", dst: \"%v\", action: protect, sa: sa%d}\n",
				direction, prefix(d.from).Masked(), prefix(d.to).Masked(), spi)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "warproute.yaml")
	text := fmt.Sprintf("ports: [{interface: lan0}, {interface: wan0}]\nengine: cpu\nipsec:\n  state: %s\n%s  sas:\n%s  policies:\n%s", dir, ipsec, &sas, &policies)
	writeFile(t, path, text)
	return path
}

// pathMTU returns the path MTU of a's outbound SA.
func (n *narrowPath) pathMTU(t *testing.T, ipv6 bool) int { return n.sender(t, ipv6).PathMTU }

// sender returns a's outbound SA of a family.
func (n *narrowPath) sender(t *testing.T, ipv6 bool) status.SA {
	t.Helper()
	var sas []status.SA
	require.NoError(t, n.a.Get("/sas", &sas))
	for _, s := range sas {
		if s.Direction == "out" && strings.Contains(s.Dst, ":") == ipv6 {
			return s
		}
	}
	t.Fatalf("no outbound SA among %+v", sas)
	return status.SA{}
}

// sendTooBig sends an ICMP error that quotes ESP from a to b, from the router in the middle.
func (n *narrowPath) sendTooBig(t *testing.T, spi, sequence uint32, mtu uint16) {
	t.Helper()
	e := narrowEnds[0]
	a, b := netip.MustParsePrefix(e.a).Addr(), netip.MustParsePrefix(e.b).Addr()
	msg := []byte{3, 4, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu), 0x45, 0, 5, 220, byte(sequence >> 8), byte(sequence), 0x40, 0, 64, 50, 0, 0}
	msg = append(append(msg, a.AsSlice()...), b.AsSlice()...)
	msg = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(msg, spi), sequence)
	binary.BigEndian.PutUint16(msg[2:], packet.Checksum(msg))
	require.NoError(t, n.middle.Do(func() error {
		conn, err := net.DialIP("ip4:icmp", nil, &net.IPAddr{IP: a.AsSlice()})
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(msg)
		return err
	}))
}

// A gateway learns a smaller MTU on the path to its peer from ICMP errors and reports the inner MTU
// to the sources. It ignores errors about packets that it did not send.
func TestGatewayLearnsPathMTU(t *testing.T) {
	n := newNarrowPath(t, "", "")
	var first netip.Addr
	for i, e := range narrowEnds {
		server := netip.MustParsePrefix(e.server).Addr()
		if i == 0 {
			first = server
		}
		mustPing(t, n.client, server, lab.PingOptions{Size: 500})
	}

	// Errors about another SPI or sequence number are ignored.
	n.sendTooBig(t, 0x9999, 1, 1000)
	n.sendTooBig(t, spiOfA, 1000, 1000)
	mustPing(t, n.client, first, lab.PingOptions{Size: 500, Interval: 50 * time.Millisecond})
	if mtu := n.pathMTU(t, false); mtu != 0 {
		t.Errorf("a forged error has set the path's MTU to %d", mtu)
	}

	for i, e := range narrowEnds {
		server := netip.MustParsePrefix(e.server).Addr()
		large := lab.PingOptions{Count: 1, Size: 1370, Timeout: 300 * time.Millisecond}
		if _, err := lab.Ping(n.client, server, large); err == nil {
			t.Fatalf("to %v: %d bytes fit", server, large.Size)
		}
		if mtu := n.pathMTU(t, i == 1); mtu != narrowMTU {
			t.Errorf("to %v: the path's MTU is %d, want %d", server, mtu, narrowMTU)
		}
		var tooBig *lab.ICMPError
		if _, err := lab.Ping(n.client, server, large); !errors.As(err, &tooBig) {
			t.Errorf("to %v: the client gets no ICMP error: %v", server, err)
		}
		_, _ = lab.Ping(n.client, server, large)    // the server may get an error about its reply, too
		large.Count, large.Timeout = 3, time.Second // now both fragment
		if _, err := lab.Ping(n.client, server, large); err != nil {
			t.Errorf("to %v: %v", server, err)
		}
		for _, d := range [][2]*lab.Namespace{{n.client, n.server}, {n.server, n.client}} {
			to := server
			if d[1] == n.client {
				to = netip.MustParsePrefix(e.client).Addr()
			}
			checkTransfer(t, d[0], d[1], to, 1<<20, 10*time.Second)
		}
	}
	time.Sleep(2200 * time.Millisecond)
	n.sendTooBig(t, spiOfA, 1, 1100) // a packet that was sent, seconds ago
	mustPing(t, n.client, first, lab.PingOptions{Size: 500, Interval: 50 * time.Millisecond})
	n.sendTooBig(t, spiOfA, uint32(n.sender(t, false).Sequence), 1200) // a packet that was just sent
	eventually(t, 5*time.Second, "the path MTU is 1200", func() bool { return n.pathMTU(t, false) == 1200 })
}

// Gateways reassemble ESP in UDP that routers or gateways have fragmented. Fragmented IKE on the same
// port reaches the key daemon.
func TestFragmentedESPInUDPIsReassembled(t *testing.T) {
	n := newNarrowPath(t, ", encap: {sport: 4500, dport: 4500}, df: clear", "  fragment: after\n")
	for i, size := range []int{1400, 1232} { // IPv6: the minimum MTU of every path
		e := narrowEnds[i]
		server := netip.MustParsePrefix(e.server).Addr()
		opts := lab.PingOptions{Count: 1, Size: size, Timeout: 200 * time.Millisecond}
		_, _ = lab.Ping(n.client, server, opts) // IPv6 routers report packets that are too large
		opts.Count, opts.Timeout = 5, time.Second
		if _, err := lab.Ping(n.client, server, opts); err != nil {
			t.Errorf("to %v: %v", server, err)
		}
		checkTransfer(t, n.client, n.server, server, 1<<20, 10*time.Second)
		daemon := netip.AddrPortFrom(netip.MustParsePrefix(e.b).Addr(), 4500)
		if err := n.ike(daemon); err != nil {
			t.Errorf("to %v: %v", daemon, err)
		}
	}
	merged := regexp.MustCompile(`(\d+) transmitted fragments were reassembled`)
	n.b.Stop()
	if m := merged.FindStringSubmatch(n.b.Out.String()); m == nil || len(m[1]) < 2 {
		t.Errorf("few fragments were reassembled: %v", m)
	}
}

// ike sends a key daemon's datagram that exceeds the far link's MTU from the router in the middle,
// and waits until it arrives.
func (n *narrowPath) ike(to netip.AddrPort) error {
	var there, back *net.UDPConn
	if err := n.gatewayB.Do(func() (err error) {
		there, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(to))
		return err
	}); err != nil {
		return err
	}
	defer there.Close()
	if err := n.middle.Do(func() (err error) {
		back, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		return err
	}); err != nil {
		return err
	}
	defer back.Close()
	message := make([]byte, narrowMTU+500)
	copy(message[4:], "behind four bytes that are no SPI")
	if _, err := back.Write(message); err != nil {
		return err
	}
	got := make([]byte, len(message)+1)
	if err := there.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	size, err := there.Read(got)
	if err == nil && !bytes.Equal(got[:size], message) {
		err = fmt.Errorf("%d bytes arrived, not those of the key daemon", size)
	}
	return err
}
