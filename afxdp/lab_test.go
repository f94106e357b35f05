package afxdp

import (
	"encoding/binary"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

// The lab of these tests: ports ra and rb, each a veth whose other end, a or b,
// is a packet socket of the test.
//
//	test ── a ──veth── ra ── XDP ── socket ── Queue ── test
//	test ── b ──veth── rb ── XDP ── socket ── Queue ── test

// enterNamespace puts the test's goroutine into a new network namespace, for
// good: the thread stays locked and ends with the goroutine, and the namespace
// with everything in it goes with the thread.
func enterNamespace(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("needs root: network namespaces, XDP programs and AF_XDP sockets are made here")
	}
	runtime.LockOSThread()
	ns, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	ns.Close()
	// No address autoconfiguration, whose packets would be counted.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}

// addVeth makes a pair of interfaces, up, of the given number of queues.
func addVeth(t testing.TB, name, peer string, queues int) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = name, queues, queues
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: peer, PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues)}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatalf("add veth %s, %s: %v", name, peer, err)
	}
	for _, n := range []string{name, peer} {
		setUp(t, n, true)
	}
}

func setUp(t testing.TB, name string, up bool) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	set := netlink.LinkSetDown
	if up {
		set = netlink.LinkSetUp
	}
	if err := set(l); err != nil {
		t.Fatalf("set %s up %v: %v", name, up, err)
	}
}

// newWorker returns the memory of a worker, unmapped when the test ends.
func newWorker(t testing.TB, frames int) WorkerMemory {
	t.Helper()
	m, err := umem.New(frames)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return WorkerMemory{Memory: m, Pool: umem.NewPool(m)}
}

// open opens the ports until the test ends.
func open(t testing.TB, cfg Config) *Set {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Admit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// ports names interfaces to be opened in one mode.
func ports(mode Mode, names ...string) (p []PortConfig) {
	for _, n := range names {
		p = append(p, PortConfig{Interface: n, Mode: mode})
	}
	return p
}

// patience is how long the tests wait for a frame that does not come. What does
// come over a veth comes before the system call that sent it returns.
const patience = 200 * time.Millisecond

// wire is a packet socket on an interface.
type wire struct {
	t  testing.TB
	fd int
}

func newWire(t testing.TB, name string) *wire {
	t.Helper()
	iface, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	const all = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	timeout := unix.NsecToTimeval(int64(patience))
	for _, err := range []error{
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: iface.Index}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return &wire{t, fd}
}

func (w *wire) send(frame []byte) {
	w.t.Helper()
	if _, err := unix.Write(w.fd, frame); err != nil {
		w.t.Fatalf("send a frame of %d bytes: %v", len(frame), err)
	}
}

// receive returns the next frame, or nil when none came for a while.
func (w *wire) receive() []byte {
	w.t.Helper()
	b := make([]byte, 65536)
	n, err := testutil.Again(func() (int, error) { return unix.Read(w.fd, b) })
	if err == unix.EAGAIN {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return b[:n]
}

// udp returns a frame with an IPv4 UDP packet of the given length in all. The
// flow is its source port, and the number is in its last four bytes.
func udp(dst [6]byte, flow uint16, number uint32, length int) []byte {
	b := make([]byte, length)
	copy(b, dst[:])
	copy(b[6:], []byte{2, 0, 0, 0, 0, 9})
	binary.BigEndian.PutUint16(b[12:], unix.ETH_P_IP)
	ip := b[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], []byte{198, 18, 0, 1, 198, 19, 0, 1})
	binary.BigEndian.PutUint16(ip[20:], flow)
	binary.BigEndian.PutUint16(ip[22:], 9)
	binary.BigEndian.PutUint16(ip[24:], uint16(len(ip)-20))
	for i := 42; i < length; i++ {
		b[i] = byte(i)
	}
	binary.BigEndian.PutUint32(b[length-4:], number)
	return b
}

// receiveAll collects frames from queues until there are n, or none came for a while.
func receiveAll(queues []*Queue, n int) (got []batch.Frame) {
	buf := make([]batch.Frame, 64)
	for idle := time.Now(); len(got) < n && time.Since(idle) < patience; {
		for _, q := range queues {
			q.Refill()
			if k := q.Receive(buf); k > 0 {
				got = append(got, buf[:k]...)
				idle = time.Now()
			}
		}
	}
	return got
}

// bytesOf returns the frame's bytes.
func bytesOf(w WorkerMemory, f batch.Frame) []byte { return w.Memory.Bytes()[f.Addr:][:f.Len] }

func setMTU(t testing.TB, name string, mtu int) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetMTU(l, mtu); err != nil {
		t.Fatalf("set the MTU of %s to %d: %v", name, mtu, err)
	}
}
