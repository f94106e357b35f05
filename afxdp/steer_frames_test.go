package afxdp

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// Addresses of the packets below.
var (
	portMAC  = [6]byte{2, 0, 0, 0, 0, 1}
	otherMAC = [6]byte{2, 0, 0, 0, 0, 2}
	hosts4   = netip.MustParseAddr("198.18.0.9")
	own4     = netip.MustParseAddr("192.0.2.1")
	subnet4  = netip.MustParseAddr("192.0.2.255") // directed broadcast, added as local
	far4     = netip.MustParseAddr("198.19.0.1")
	hosts6   = netip.MustParseAddr("2001:db8:1::9")
	own6     = netip.MustParseAddr("2001:db8::1")
	far6     = netip.MustParseAddr("2001:db8:2::1")
	linkloc6 = netip.MustParseAddr("fe80::9")
)

const (
	ipv4 = unix.ETH_P_IP
	ipv6 = unix.ETH_P_IPV6
)

// Actions of an XDP program.
const (
	xdpDrop     = 1
	xdpPass     = 2
	xdpRedirect = 4
)

func eth(dst [6]byte, etherType uint16, payload ...[]byte) []byte {
	b := append(dst[:], 2, 0, 0, 0, 0, 9)
	b = binary.BigEndian.AppendUint16(b, etherType)
	for _, p := range payload {
		b = append(b, p...)
	}
	return b
}

// ip4 returns an IPv4 header with a number of 32-bit words of options, and 8 bytes.
func ip4(dst netip.Addr, options int) []byte {
	b := make([]byte, 20+4*options+8)
	b[0], b[8], b[9] = byte(0x45+options), 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	copy(b[12:], hosts4.AsSlice())
	copy(b[16:], dst.AsSlice())
	return b
}

// ip6 returns an IPv6 header with a payload.
func ip6(src, dst netip.Addr, next byte, payload ...byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[6], b[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	copy(b[8:], src.AsSlice())
	copy(b[24:], dst.AsSlice())
	return append(b, payload...)
}

func udp6(src, dst netip.Addr) []byte { return ip6(src, dst, unix.IPPROTO_UDP, make([]byte, 8)...) }

func icmp6(dst netip.Addr, icmpType byte) []byte {
	return ip6(hosts6, dst, unix.IPPROTO_ICMPV6, icmpType, 0, 0, 0)
}

// from sets the source of an IPv4 packet.
func from(src netip.Addr, b []byte) []byte {
	copy(b[12:], src.AsSlice())
	return b
}

// with returns b with one byte changed.
func with(b []byte, at int, value byte) []byte {
	b[at] = value
	return b
}

var broadcastMAC = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// openWith opens a port with MAC address portMAC in its own namespace, for a router with addresses.
func openWith(t *testing.T, own ...netip.Addr) *Set {
	t.Helper()
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{newWorker(t, 64)}, RingSize: 64})
	require.NoError(t, s.Ports[0].SetMAC(portMAC))
	for _, a := range own {
		require.NoError(t, s.AddLocal(a))
	}
	return s
}

// expect runs the port's program on a frame: it returns the action, leaves the frame unchanged, and
// increments the counter of the decision only.
func expect(t *testing.T, p *Port, rule string, frame []byte, want Decision, action uint32) {
	t.Helper()
	before, err := p.Stats()
	require.NoError(t, err)
	out := make([]byte, len(frame))
	got, err := p.program.Steer.Run(&ebpf.RunOptions{Data: frame, DataOut: out})
	if err != nil {
		t.Fatalf("%s: run the program: %v", rule, err)
	}
	after, err := p.Stats()
	require.NoError(t, err)
	if got != action {
		t.Errorf("%s: action %d, want %d", rule, got, action)
	}
	if string(out) != string(frame) {
		t.Errorf("%s: the frame was changed:\n got %x\nwant %x", rule, out, frame)
	}
	for d := range Decision(NumDecisions) {
		n := uint64(0)
		if d == want {
			n = 1
		}
		if got := after.Frames[d] - before.Frames[d]; got != n {
			t.Errorf("%s: counted %d times as %v, want %d", rule, got, d, n)
		}
	}
}
