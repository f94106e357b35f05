package afxdp

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// The lab of these tests: ports ra and rb, each a veth whose other end, a or b,
// is a packet socket of the test.
//
//	test ── a ──veth── ra ── XDP ── socket ── Queue ── test
//	test ── b ──veth── rb ── XDP ── socket ── Queue ── test
//
// enterNamespace moves the test's goroutine to a new network namespace. The thread stays locked and
// ends with the goroutine, and the namespace with the thread.
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
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0))
}

// addVeth creates a pair of interfaces that are up, with a number of queues.
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
	require.NoError(t, err)
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
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return WorkerMemory{Memory: m, Pool: umem.NewPool(m)}
}

// open opens the ports until the test ends.
func open(t testing.TB, cfg Config) *Set {
	t.Helper()
	s, err := Open(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Admit())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// openVeths opens ports with one queue and one worker in a new namespace. The peer of port "ra" is "a".
func openVeths(t testing.TB, mode Mode, frames int, ringSize uint32, names ...string) (WorkerMemory, *Set) {
	t.Helper()
	enterNamespace(t)
	for _, n := range names {
		addVeth(t, n, n[1:], 1)
	}
	w := newWorker(t, frames)
	return w, open(t, Config{Ports: ports(mode, names...), Workers: []WorkerMemory{w}, RingSize: ringSize})
}

// ports returns the configuration of interfaces in one mode.
func ports(mode Mode, names ...string) (p []PortConfig) {
	for _, n := range names {
		p = append(p, PortConfig{Interface: n, Mode: mode})
	}
	return p
}

// receiveAll receives frames from queues until there are n, or none arrives for a while.
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
	require.NoError(t, err)
	if err := netlink.LinkSetMTU(l, mtu); err != nil {
		t.Fatalf("set the MTU of %s to %d: %v", name, mtu, err)
	}
}

// attached reports whether the interface has an XDP program.
func attached(t *testing.T, name string) bool {
	t.Helper()
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	return l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
}

// works sends a frame through the port.
func works(t *testing.T, s *Set) {
	t.Helper()
	newWire(t, "a").send(udp(s.Ports[0].MAC, 1, 1, 60))
	if got := receiveAll(s.Ports[0].Queues(0), 1); len(got) != 1 {
		t.Fatal("the port received nothing")
	}
}
