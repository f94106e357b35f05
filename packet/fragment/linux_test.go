package fragment

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// station is Linux at the other end of a wire that ends in a packet socket of ours.
//
//	ours                    linux
//	wire0 ───────────────── eth0
//	10.7.0.2                10.7.0.1/24
//	fd07::2                 fd07::1/64
type station struct {
	t     *testing.T
	wire  int
	mac   net.HardwareAddr // of Linux
	linux *lab.Namespace
}

func newStation(t *testing.T) *station {
	t.Helper()
	s := &station{t: t}
	ours, err := lab.New("ours")
	require.NoError(t, err)
	t.Cleanup(func() { ours.Close() })
	s.linux, err = lab.New("linux")
	require.NoError(t, err)
	t.Cleanup(func() { s.linux.Close() })
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 2} // that of testutil's frames
	require.NoError(t, lab.Veth(lab.End{Namespace: ours, Name: "wire0", MAC: mac}, lab.End{Namespace: s.linux, Name: "eth0"}, lab.VethOptions{}))
	for _, a := range []netip.Prefix{lab.LAN4, lab.LAN6} {
		require.NoError(t, s.linux.AddAddr("eth0", a))
	}
	for _, a := range []netip.Prefix{lab.Client4, lab.Client6} {
		require.NoError(t, s.linux.AddNeighbor("eth0", a.Addr(), mac))
	}
	s.mac, err = s.linux.MAC("eth0")
	require.NoError(t, err)
	require.NoError(t, ours.Do(func() error {
		link, err := ours.Link("wire0")
		if err != nil {
			return err
		}
		if s.wire, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(s.wire, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return err
		}
		const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
		return unix.Bind(s.wire, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index})
	}))
	t.Cleanup(func() { unix.Close(s.wire) })
	timeout := unix.NsecToTimeval(int64(5 * time.Second))
	require.NoError(t, unix.SetsockoptTimeval(s.wire, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	return s
}

// udp opens a UDP socket of Linux.
func (s *station) udp(local netip.Addr) *net.UDPConn {
	s.t.Helper()
	var conn *net.UDPConn
	require.NoError(s.t, s.linux.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 2000)))
		return err
	}))
	s.t.Cleanup(func() { conn.Close() })
	require.NoError(s.t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	return conn
}

func (s *station) send(p []byte) {
	s.t.Helper()
	kind := layers.EthernetTypeIPv4
	if p[0]>>4 == 6 {
		kind = layers.EthernetTypeIPv6
	}
	frame := append(testutil.Frame(testutil.Ethernet(kind))[:packet.EthernetLen], p...)
	copy(frame, s.mac)
	if _, err := unix.Write(s.wire, frame); err != nil {
		s.t.Fatalf("send a frame of %d bytes: %v", len(frame), err)
	}
}

var ends = []struct {
	name        string
	ours, linux netip.Addr
	frame       func(src, dst string, sport, dport uint16, payload ...byte) []byte
	split       func(p []byte, mtu int, id uint32) (Split, error)
}{
	{"IPv4", lab.Client4.Addr(), lab.LAN4.Addr(), testutil.UDP4, func(p []byte, mtu int, _ uint32) (Split, error) { return IPv4(p, mtu) }},
	{"IPv6", lab.Client6.Addr(), lab.LAN6.Addr(), testutil.UDP6, IPv6},
}

// Linux reassembles our fragments, in any order, with duplicates, and with every MTU.
func TestLinuxReassemblesOurFragments(t *testing.T) {
	s := newStation(t)
	for _, e := range ends {
		conn := s.udp(e.linux)
		rnd := rand.New(rand.NewPCG(12, 13))
		b := make([]byte, 1<<16)
		for i := range 200 {
			data := pattern(1 + rnd.IntN(20000))
			p := bare(e.frame(e.ours.String(), e.linux.String(), 1000, 2000, data...))
			if e.name == "IPv4" {
				p = testutil.Edit(append(make([]byte, packet.EthernetLen), p...), 4, byte(i>>8), byte(i))[packet.EthernetLen:]
			}
			split, err := e.split(p, 576+rnd.IntN(925), uint32(i))
			all := fragments(t, split, err)
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for n, f := range all {
				s.send(f)
				if n < len(all)-1 && rnd.IntN(4) == 0 {
					s.send(f)
				}
			}
			n, err := conn.Read(b)
			if err != nil || !bytes.Equal(b[:n], data) {
				t.Fatalf("%s, %d bytes in %d fragments: Linux got %d bytes, %v", e.name, len(data), len(all), n, err)
			}
		}
	}
}

func TestLinuxFragmentsAreReassembled(t *testing.T) {
	s := newStation(t)
	for _, e := range ends {
		conn := s.udp(e.linux)
		rnd := rand.New(rand.NewPCG(14, 15))
		r := NewReassembler(Limits{})
		b := make([]byte, 2048)
		for range 100 {
			data := pattern(1500 + rnd.IntN(40000))
			if _, err := conn.WriteToUDPAddrPort(data, netip.AddrPortFrom(e.ours, 1000)); err != nil {
				t.Fatal(err)
			}
			var whole []byte
			for whole == nil {
				n, err := testutil.Again(func() (int, error) { return unix.Read(s.wire, b) })
				if err != nil {
					t.Fatalf("%s, %d bytes: wait for Linux's fragments: %v", e.name, len(data), err)
				}
				if _, fragment, _ := parse(b[packet.EthernetLen:n]); !fragment {
					continue // Linux's own, such as router solicitations
				}
				whole, err = r.Add(0, b[packet.EthernetLen:n])
				require.NoError(t, err)
			}
			at := map[string]int{"IPv4": packet.IPv4Len, "IPv6": packet.IPv6Len}[e.name] + 8
			if !bytes.Equal(bare(append(make([]byte, packet.EthernetLen), whole...)), whole) || !bytes.Equal(whole[at:], data) {
				t.Fatalf("%s: %d bytes made %d", e.name, len(data), len(whole))
			}
		}
	}
}

// Linux refuses the same overlapping fragments.
func TestLinuxRefusesOverlapToo(t *testing.T) {
	s := newStation(t)
	for _, e := range ends {
		conn := s.udp(e.linux)
		fam := families[map[string]int{"IPv4": 0, "IPv6": 1}[e.name]]
		r := NewReassembler(Limits{})
		for id, overlap := range []bool{true, false, true, false} {
			data := pattern(1000 + id)
			p := bare(e.frame(e.ours.String(), e.linux.String(), 1000, 2000, data...))
			header := len(p) - len(data) - 8
			part := func(from, to int, more bool) []byte {
				f := fam.part(uint16(id+1), from, more, p[header+from:header+to])
				addrs := map[string]int{"IPv4": 12, "IPv6": 8}[e.name]
				copy(f[addrs:], p[addrs:header])
				if e.name == "IPv4" {
					return testutil.Edit(append(make([]byte, packet.EthernetLen), f...), 8, 64)[packet.EthernetLen:]
				}
				f[40] = byte(packet.UDP)
				return f
			}
			end := len(p) - header
			parts := [][]byte{part(0, 400, true), part(400, 800, true), part(800, end, false)}
			if overlap {
				parts[1] = part(392, 800, true)
			}
			var whole []byte
			for _, f := range parts {
				s.send(f)
				whole, _ = r.Add(0, f)
			}
			if (whole == nil) != overlap {
				t.Errorf("%s, overlap %v: we made %d bytes", e.name, overlap, len(whole))
			}
			if overlap {
				continue
			}
			b := make([]byte, 2048)
			if n, err := conn.Read(b); err != nil || !bytes.Equal(b[:n], data) {
				t.Errorf("%s: Linux got %d bytes, want those %d that did not overlap, %v", e.name, n, len(data), err)
			}
		}
	}
}
