package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/packet"
)

// Two gateways with a Linux router between them, on whose far side links are narrower:
//
//	client ── lan0 a wan0 ──────── near middle far ──────── wan0 b lan0 ── server
//	10.1.0.2      192.0.2.1  192.0.2.2   198.51.100.2  198.51.100.1      10.2.0.2
//	fd01::2    2001:db8:1::1 ::2               ::2   2001:db8:2::1        fd02::2
type narrowPath struct {
	client, gatewayA, middle, gatewayB, server *lab.Namespace
	a, b                                       *router
}

const (
	narrowMTU = 1300
	spiOfA    = 0x1000 // of what a sends, by IPv4; what b sends, and IPv6, come behind
)

var narrowEnds = []struct{ client, server, a, b, nearby, faraway string }{
	{"10.1.0.2/24", "10.2.0.2/24", "192.0.2.1/24", "198.51.100.1/24", "192.0.2.2/24", "198.51.100.2/24"},
	{"fd01::2/64", "fd02::2/64", "2001:db8:1::1/64", "2001:db8:2::1/64", "2001:db8:1::2/64", "2001:db8:2::2/64"},
}

// newNarrowPath has the associations have the settings given.
func newNarrowPath(t *testing.T, association, ipsec string) *narrowPath {
	t.Helper()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	namespace := func(name string) *lab.Namespace { return newNamespace(t, name) }
	n := &narrowPath{client: namespace("client"), middle: namespace("middle"), server: namespace("server")}
	a, b := namespace("a"), namespace("b")
	n.gatewayA, n.gatewayB = a, b
	for _, v := range []struct {
		from, to *lab.Namespace
		ends     [2]string
		mtu      int
	}{{n.client, a, [2]string{"eth0", "lan0"}, 0}, {a, n.middle, [2]string{"wan0", "near"}, 0}, {n.middle, b, [2]string{"far", "wan0"}, narrowMTU}, {b, n.server, [2]string{"lan0", "eth0"}, 0}} {
		fatal(lab.Veth(lab.End{Namespace: v.from, Name: v.ends[0]}, lab.End{Namespace: v.to, Name: v.ends[1]}, lab.VethOptions{MTU: v.mtu}))
	}
	for _, s := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		fatal(a.Sysctl(s, "0"))
		fatal(b.Sysctl(s, "0"))
		fatal(n.middle.Sysctl(s, "1"))
	}
	for _, e := range narrowEnds {
		for _, at := range []struct {
			ns         *lab.Namespace
			link, addr string
		}{
			{n.client, "eth0", e.client}, {a, "lan0", gatewayOf(e.client)}, {a, "wan0", e.a}, {n.middle, "near", e.nearby},
			{n.middle, "far", e.faraway}, {b, "wan0", e.b}, {b, "lan0", gatewayOf(e.server)}, {n.server, "eth0", e.server},
		} {
			fatal(at.ns.AddAddr(at.link, netip.MustParsePrefix(at.addr)))
		}
		route := func(ns *lab.Namespace, to, via string) {
			fatal(ns.AddRoute(netip.MustParsePrefix(to), netip.MustParsePrefix(via).Addr()))
		}
		route(n.client, e.server, gatewayOf(e.client))
		route(n.server, e.client, gatewayOf(e.server))
		route(a, e.b, e.nearby)
		route(b, e.a, e.faraway)
		// In clear there is a way, too.
		route(a, e.server, e.nearby)
		route(b, e.client, e.faraway)
	}
	n.a = startRouter(t, a, "--config", narrowConfig(t, true, association, ipsec))
	n.b = startRouter(t, b, "--config", narrowConfig(t, false, association, ipsec))
	return n
}

// gatewayOf is the first address of a host's network.
func gatewayOf(host string) string {
	p := netip.MustParsePrefix(host)
	return netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits()).String()
}

func narrowConfig(t *testing.T, ofA bool, association, ipsec string) string {
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
				spi, spi, direction, prefix(d.src).Addr(), prefix(d.dst).Addr(), spi, association)
			fmt.Fprintf(&policies, "    - {direction: %s, src: \"%v\", dst: \"%v\", action: protect, sa: sa%d}\n",
				direction, prefix(d.from).Masked(), prefix(d.to).Masked(), spi)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "warproute.yaml")
	text := fmt.Sprintf("ports: [{interface: lan0}, {interface: wan0}]\nengine: cpu\nipsec:\n  state: %s\n%s  sas:\n%s  policies:\n%s", dir, ipsec, &sas, &policies)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pathMTU is that of the association with which a sends.
func (n *narrowPath) pathMTU(t *testing.T, ipv6 bool) int { return n.sender(t, ipv6).PathMTU }

// sender is the association with which a sends.
func (n *narrowPath) sender(t *testing.T, ipv6 bool) status.SA {
	t.Helper()
	var sas []status.SA
	if err := n.a.get("/sas", &sas); err != nil {
		t.Fatal(err)
	}
	for _, s := range sas {
		if s.Direction == "out" && strings.Contains(s.Dst, ":") == ipv6 {
			return s
		}
	}
	t.Fatalf("no association to send by among %+v", sas)
	return status.SA{}
}

// say has the router between the gateways send an error that quotes ESP from a to b.
func (n *narrowPath) say(t *testing.T, spi, sequence uint32, mtu uint16) {
	t.Helper()
	e := narrowEnds[0]
	a, b := netip.MustParsePrefix(e.a).Addr(), netip.MustParsePrefix(e.b).Addr()
	msg := []byte{3, 4, 0, 0, 0, 0, byte(mtu >> 8), byte(mtu), 0x45, 0, 5, 220, byte(sequence >> 8), byte(sequence), 0x40, 0, 64, 50, 0, 0}
	msg = append(append(msg, a.AsSlice()...), b.AsSlice()...)
	msg = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(msg, spi), sequence)
	binary.BigEndian.PutUint16(msg[2:], packet.Checksum(msg))
	if err := n.middle.Do(func() error {
		conn, err := net.DialIP("ip4:icmp", nil, &net.IPAddr{IP: a.AsSlice()})
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(msg)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A path that narrows behind the gateway's port is found out: what routers there say to
// the gateway, it says to the sources, with the size that fits inside. Others who say so
// are not believed.
func TestPathMTUBehindThePort(t *testing.T) {
	n := newNarrowPath(t, "", "")
	var first netip.Addr
	for i, e := range narrowEnds {
		server := netip.MustParsePrefix(e.server).Addr()
		if i == 0 {
			first = server
		}
		if _, err := lab.Ping(n.client, server, lab.PingOptions{Size: 500}); err != nil {
			t.Fatal(err)
		}
	}

	// The path is not narrow for those who do not know the association and its packets.
	n.say(t, 0x9999, 1, 1000)
	n.say(t, spiOfA, 1000, 1000)
	if _, err := lab.Ping(n.client, first, lab.PingOptions{Size: 500, Interval: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
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
		var told *lab.ICMPError
		if _, err := lab.Ping(n.client, server, large); !errors.As(err, &told) {
			t.Errorf("to %v: the client is not told: %v", server, err)
		}
		_, _ = lab.Ping(n.client, server, large)    // the server may be told, too, of its answer
		large.Count, large.Timeout = 3, time.Second // by now both know, and cut
		if _, err := lab.Ping(n.client, server, large); err != nil {
			t.Errorf("to %v: %v", server, err)
		}
		for _, d := range [][2]*lab.Namespace{{n.client, n.server}, {n.server, n.client}} {
			to := server
			if d[1] == n.client {
				to = netip.MustParsePrefix(e.client).Addr()
			}
			if _, err := lab.Transfer(d[0], d[1], to, 1<<20, 10*time.Second); err != nil {
				t.Error(err)
			}
		}
	}
	time.Sleep(2200 * time.Millisecond)
	n.say(t, spiOfA, 1, 1100) // a packet that was sent, seconds ago
	if _, err := lab.Ping(n.client, first, lab.PingOptions{Size: 500, Interval: 50 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	n.say(t, spiOfA, uint32(n.sender(t, false).Sequence), 1200) // a packet that was just sent
	for deadline := time.Now().Add(5 * time.Second); n.pathMTU(t, false) != 1200; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the path's MTU is %d, want 1200", n.pathMTU(t, false))
		}
	}
}

// ESP in UDP that routers on the way have cut, or the gateways themselves, is put together
// and opened. What a key daemon is sent by the same ports, cut as well, reaches it.
func TestESPInUDPIsPutTogether(t *testing.T) {
	n := newNarrowPath(t, ", encap: {sport: 4500, dport: 4500}, df: clear", "  fragment: after\n")
	for i, size := range []int{1400, 1232} { // in IPv6, all that every way must carry
		e := narrowEnds[i]
		server := netip.MustParsePrefix(e.server).Addr()
		opts := lab.PingOptions{Count: 1, Size: size, Timeout: 200 * time.Millisecond}
		_, _ = lab.Ping(n.client, server, opts) // of IPv6, routers say that it is too large, and do not cut
		opts.Count, opts.Timeout = 5, time.Second
		if _, err := lab.Ping(n.client, server, opts); err != nil {
			t.Errorf("to %v: %v", server, err)
		}
		if _, err := lab.Transfer(n.client, n.server, server, 1<<20, 10*time.Second); err != nil {
			t.Error(err)
		}
		daemon := netip.AddrPortFrom(netip.MustParsePrefix(e.b).Addr(), 4500)
		if err := n.ike(daemon); err != nil {
			t.Errorf("to %v: %v", daemon, err)
		}
	}
	merged := regexp.MustCompile(`(\d+) fragments of those transmitted became part of others`)
	n.b.stop()
	if m := merged.FindStringSubmatch(n.b.out.String()); m == nil || len(m[1]) < 2 {
		t.Errorf("few fragments were put together: %v", m)
	}
}

// ike has the router in the middle send a key daemon's datagram that is too large for the
// link behind it, and waits until it is there.
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
