package icmp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// linuxRouter is a client's packet socket at a router that is Linux.
type linuxRouter struct {
	t   *testing.T
	fd  int
	mac []byte // of the router
}

const (
	gone4, gone6     = "10.8.0.99", "fd08::99" // on the server's link, but nobody's
	closed4, closed6 = "10.9.0.1", "fd09::1"   // behind prohibit routes
	nowhere4         = "10.99.0.1"
	nowhere6         = "fd99::1"
	narrow           = 1300 // MTU of the server's link
)

func newLinuxRouter(t *testing.T) *linuxRouter {
	t.Helper()
	top, err := lab.NewTopology(lab.VethOptions{})
	require.NoError(t, err)
	t.Cleanup(top.Close)
	require.NoError(t, top.Forwarding(true))
	for name, value := range map[string]string{
		"net.ipv4.icmp_ratemask":              "0", // of types that are limited by destination
		"net.ipv4.icmp_msgs_per_sec":          "1000000",
		"net.ipv4.icmp_msgs_burst":            "1000000",
		"net.ipv6.icmp.ratelimit":             "0",
		"net.ipv6.auto_flowlabels":            "0",
		"net.ipv4.neigh.wan0.retrans_time_ms": "10", // to give up on a neighbour soon
		"net.ipv6.neigh.wan0.retrans_time_ms": "10",
	} {
		require.NoError(t, top.Router.Sysctl(name, value))
	}
	wan, err := top.Router.Link(lab.WAN)
	require.NoError(t, err)
	require.NoError(t, top.Router.Netlink().LinkSetMTU(wan, narrow))
	for _, closed := range []string{closed4, closed6} {
		addr := netip.MustParseAddr(closed)
		dst := &netlink.Route{Type: unix.RTN_PROHIBIT, Dst: netlink.NewIPNet(addr.AsSlice())}
		require.NoError(t, top.Router.Netlink().RouteAdd(dst))
	}
	r := &linuxRouter{t: t, fd: -1}
	r.mac, err = top.Router.MAC(lab.LAN)
	require.NoError(t, err)
	require.NoError(t, top.Client.Do(func() (err error) {
		link, err := top.Client.Link(lab.ClientLink)
		if err != nil {
			return err
		}
		if r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
		return unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index})
	}))
	t.Cleanup(func() { unix.Close(r.fd) })
	timeout := unix.NsecToTimeval(int64(5 * time.Second))
	require.NoError(t, unix.SetsockoptTimeval(r.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	return r
}

func (r *linuxRouter) send(frame []byte) {
	r.t.Helper()
	frame = bytes.Clone(frame)
	copy(frame, r.mac)
	if _, err := unix.Write(r.fd, frame); err != nil {
		r.t.Fatalf("send a frame of %d bytes: %v", len(frame), err)
	}
}

// nextError returns the next ICMP error that comes back, without its link header
// and padding. A mark is a frame that is sent to learn whether any comes at all:
// it provokes an error for certain, and nil is returned when that is the next.
func (r *linuxRouter) nextError(mark []byte) []byte {
	r.t.Helper()
	if mark == nil {
		return r.receive()
	}
	r.send(mark)
	p := r.receive()
	if bytes.HasSuffix(p, bare(mark)) {
		return nil
	}
	if last := r.receive(); !bytes.HasSuffix(last, bare(mark)) {
		r.t.Fatalf("one packet, two errors: % x and % x", p, last)
	}
	return p
}

func (r *linuxRouter) receive() []byte {
	r.t.Helper()
	b := make([]byte, 2048)
	for {
		n, err := testutil.Again(func() (int, error) { return unix.Read(r.fd, b) })
		if err != nil {
			r.t.Fatalf("wait for an ICMP error of Linux: %v", err)
		}
		if n < packet.EthernetLen+packet.IPv6Len+1 {
			continue
		}
		p := b[packet.EthernetLen:n]
		switch (*packet.Ethernet)(b).Type() {
		case packet.EtherTypeIPv4:
			if (*packet.IPv4)(p).Protocol() == packet.ICMP {
				return bare(b[:n])
			}
		case packet.EtherTypeIPv6:
			if (*packet.IPv6)(p).NextHeader() == packet.ICMPv6 && p[packet.IPv6Len] < 128 {
				return bare(b[:n])
			}
		}
	}
}

func decrement(p []byte) {
	if p[0]>>4 == 4 {
		(*packet.IPv4)(p).DecrementTTL()
	} else {
		(*packet.IPv6)(p).DecrementHopLimit()
	}
}

// linuxIsSilent are types that are no errors, yet to Linux are.
var linuxIsSilent = map[string]bool{
	"ICMP type 9": true, "ICMP type 10": true, // router discovery, RFC 1256
	"ICMP type 42": true, "ICMP type 43": true, // extended echo, RFC 8335
}

// Linux, as a router, answers the same packets with the same bytes, and is silent
// about the same packets.
func TestErrorsEqualLinux(t *testing.T) {
	r := newLinuxRouter(t)
	client4, client6 := lab.Client4.Addr().String(), lab.Client6.Addr().String()
	server4, server6 := lab.Server4.Addr().String(), lab.Server6.Addr().String()
	const udp, icmp, icmp6 = layers.IPProtocolUDP, layers.IPProtocolICMPv4, layers.IPProtocolICMPv6

	v4 := func(dst string, proto layers.IPProtocol, change func(*layers.IPv4), l4 ...byte) []byte {
		h := testutil.IPv4(client4, dst, proto)
		h.TTL = 1
		if change != nil {
			change(h)
		}
		return testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), h, gopacket.Payload(l4))
	}
	v6 := func(dst string, next layers.IPProtocol, change func(*layers.IPv6), rest ...byte) []byte {
		h := testutil.IPv6(client6, dst, next)
		h.HopLimit = 1
		if change != nil {
			change(h)
		}
		return testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv6), h, gopacket.Payload(rest))
	}
	lives4, lives6 := func(h *layers.IPv4) { h.TTL = 9 }, func(h *layers.IPv6) { h.HopLimit = 9 }
	df := func(h *layers.IPv4) { h.TTL, h.Flags = 9, layers.IPv4DontFragment }
	l4 := func(n int, first ...byte) []byte { return append(first, pattern(n-len(first))...) }
	frag6 := func(next layers.IPProtocol, offset byte, first byte) []byte {
		return append([]byte{byte(next), 0, 0, offset, 0, 0, 0, 1}, l4(64, first)...)
	}
	type test struct {
		name  string
		frame []byte
		e     Error
	}
	tests := []test{
		{"IPv4", v4(server4, udp, nil, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv4, TTL of 0", v4(server4, udp, func(h *layers.IPv4) { h.TTL = 0 }, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv4, shorter than a frame", v4(server4, udp, nil, l4(9)...), Error{Cause: TimeExceeded}},
		{"IPv4, of odd length", v4(server4, udp, nil, l4(101)...), Error{Cause: TimeExceeded}},
		{"IPv4, one byte more than is quoted", v4(server4, udp, nil, l4(529)...), Error{Cause: TimeExceeded}},
		{"IPv4, as much as is quoted", v4(server4, udp, nil, l4(528)...), Error{Cause: TimeExceeded}},
		{"IPv4, long", v4(server4, udp, nil, l4(1400)...), Error{Cause: TimeExceeded}},
		{"IPv4, type of service", v4(server4, udp, func(h *layers.IPv4) { h.TOS = 0xb8 }, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv4, first fragment", v4(server4, udp, func(h *layers.IPv4) { h.Flags = layers.IPv4MoreFragments }, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv4, later fragment", v4(server4, udp, func(h *layers.IPv4) { h.FragOffset = 7 }, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv4, no route", v4(nowhere4, udp, lives4, l4(40)...), Error{Cause: NoRoute}},
		{"IPv4, prohibited", v4(closed4, udp, lives4, l4(40)...), Error{Cause: Prohibited}},
		{"IPv4, no neighbour", v4(gone4, udp, lives4, l4(40)...), Error{Cause: HostUnreachable}},
		{"IPv4, fragmentation needed", v4(server4, udp, df, l4(1281)...), Error{TooBig, narrow}},
		{"IPv4, to multicast", v4("224.1.2.3", udp, nil, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv6", v6(server6, udp, nil, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv6, hop limit of 0", v6(server6, udp, func(h *layers.IPv6) { h.HopLimit = 0 }, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv6, of odd length", v6(server6, udp, nil, l4(101)...), Error{Cause: TimeExceeded}},
		{"IPv6, as much as is quoted", v6(server6, udp, nil, l4(1192)...), Error{Cause: TimeExceeded}},
		{"IPv6, one byte more than is quoted", v6(server6, udp, nil, l4(1193)...), Error{Cause: TimeExceeded}},
		{"IPv6, traffic class and flow label", v6(server6, udp, func(h *layers.IPv6) { h.TrafficClass, h.FlowLabel = 0xb8, 0x12345 }, l4(40)...), Error{Cause: TimeExceeded}},
		{"IPv6, first fragment", v6(server6, layers.IPProtocolIPv6Fragment, nil, frag6(udp, 1, 0)...), Error{Cause: TimeExceeded}},
		{"IPv6, later fragment", v6(server6, layers.IPProtocolIPv6Fragment, nil, frag6(udp, 9, 0)...), Error{Cause: TimeExceeded}},
		{"IPv6, first fragment of an echo", v6(server6, layers.IPProtocolIPv6Fragment, nil, frag6(icmp6, 1, 128)...), Error{Cause: TimeExceeded}},
		{"IPv6, first fragment of an error", v6(server6, layers.IPProtocolIPv6Fragment, nil, frag6(icmp6, 1, 3)...), Error{Cause: TimeExceeded}},
		{"IPv6, later fragment of ICMPv6", v6(server6, layers.IPProtocolIPv6Fragment, nil, frag6(icmp6, 9, 3)...), Error{Cause: TimeExceeded}},
		{"IPv6, no route", v6(nowhere6, udp, lives6, l4(40)...), Error{Cause: NoRoute}},
		{"IPv6, prohibited", v6(closed6, udp, lives6, l4(40)...), Error{Cause: Prohibited}},
		{"IPv6, no neighbour", v6(gone6, udp, lives6, l4(40)...), Error{Cause: HostUnreachable}},
		{"IPv6, too big", v6(server6, udp, lives6, l4(1261)...), Error{TooBig, narrow}},
		{"IPv6, a later fragment too big", v6(server6, layers.IPProtocolIPv6Fragment, lives6, append(frag6(udp, 9, 0), l4(1200)...)...), Error{TooBig, narrow}},
		{"IPv6, from ::", v6(server6, udp, func(h *layers.IPv6) { h.SrcIP = netip.IPv6Unspecified().AsSlice() }, l4(40)...), Error{Cause: TimeExceeded}},
	}
	for typ := range 48 {
		tests = append(tests, test{fmt.Sprintf("ICMP type %d", typ), v4(server4, icmp, nil, l4(40, byte(typ), 0)...), Error{Cause: TimeExceeded}})
	}
	for _, typ := range []byte{0, 1, 2, 3, 4, 5, 99, 127, 128, 129, 150, 200, 255} {
		tests = append(tests, test{fmt.Sprintf("ICMPv6 type %d", typ), v6(server6, icmp6, nil, l4(40, typ, 0)...), Error{Cause: TimeExceeded}})
	}
	marks := [2][]byte{v4(server4, udp, nil, []byte("the end")...), v6(server6, udp, nil, []byte("the end of it")...)}
	dst := make([]byte, MaxIPv6)
	for _, c := range tests {
		p, mark, family := bare(c.frame), marks[0], 4
		if p[0]>>4 == 6 {
			mark, family = marks[1], 6
		}
		if c.e.Cause == HostUnreachable {
			mark = nil
		}
		r.send(c.frame)
		got := r.nextError(mark)
		if silent := Suppressed(p, c.e.Cause, false); silent != (got == nil) && !linuxIsSilent[c.name] {
			t.Errorf("%s: we are silent: %v, Linux is: %v", c.name, silent, got == nil)
		}
		if got == nil {
			continue
		}
		src, id := lab.LAN6.Addr(), uint16(0)
		if family == 4 {
			src, id = lab.LAN4.Addr(), binary.BigEndian.Uint16(got[4:])
		}
		if c.e.Cause == HostUnreachable {
			decrement(p) // Linux finds out when it has forwarded already (allowed by RFC 1812 4.3.2.3)
		}
		if want := dst[:Build(dst, p, c.e, src, id)]; !bytes.Equal(got, want) {
			t.Errorf("%s:\n Linux % x\n we    % x", c.name, got, want)
		}
	}
}
