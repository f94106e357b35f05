package afxdp

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

func deleteLink(t *testing.T, name string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkDel(l))
}

// An interface that is deleted and created becomes the port again, any number of times: it receives
// and transmits on the same file descriptors, its counters continue, and no frame is lost except
// one that the kernel kept.
func TestReopenDeletedInterface(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 2)
			addVeth(t, "rb", "b", 2)
			w := newWorker(t, 4096)
			s := open(t, Config{Ports: ports(mode, "ra", "rb"), Workers: []WorkerMemory{w}, RingSize: 256})
			ra, rb := s.Ports[0], s.Ports[1]
			frames := func() (n int) {
				for _, p := range s.Ports {
					for _, q := range p.Queues(0) {
						q.Refill()
						q.Reclaim()
						n += q.receiving + q.transmitting
					}
				}
				return n + w.Pool.Len()
			}
			all, descriptor := frames(), ra.Queues(0)[0].FD()
			for round := range uint64(3) {
				a := newWire(t, "a")
				for range 300 { // more than a ring holds, and none is received
					a.send(udp(ra.MAC, 1, 1, 60))
				}
				before, err := ra.Stats()
				require.NoError(t, err)
				if before.RxRingFull < 44*(round+1) {
					t.Fatalf("round %d: %+v: the rings did not overflow", round, before)
				}
				deleteLink(t, "ra")
				ra.Queues(0)[1].Transmit(compose(w, ra.MAC, 10, 60)) // to no receiver
				addVeth(t, "ra", "a", 2)
				require.NoError(t, ra.Reopen())
				if l, _ := netlink.LinkByName("ra"); ra.Ifindex != l.Attrs().Index {
					t.Errorf("the port has index %d, the interface %d", ra.Ifindex, l.Attrs().Index)
				}
				mac := [6]byte{2, 0, 0, 0, 0, byte(round)}
				require.NoError(t, ra.SetMAC(mac))
				if n := frames(); n < all-int(round)-1 { // one that the kernel keeps for the next packet
					t.Fatalf("round %d: %d frames of %d are left", round, n, all)
				}
				after, err := ra.Stats()
				if err != nil || after.RxRingFull != before.RxRingFull {
					t.Errorf("round %d: counts went from %+v to %+v (%v)", round, before, after, err)
				}

				a, b := newWire(t, "a"), newWire(t, "b")
				want := udp(mac, 1, 7, 100)
				a.send(want)
				poll := []unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}, {Fd: int32(ra.Queues(0)[1].FD()), Events: unix.POLLIN}}
				if n, err := testutil.Again(func() (int, error) { return unix.Poll(poll, 1000) }); n != 1 {
					t.Errorf("round %d: %d descriptors are ready (%v), want 1", round, n, err)
				}
				got := receiveAll(ra.Queues(0), 1)
				if len(got) != 1 || !bytes.Equal(bytesOf(w, got[0]), want) {
					t.Fatalf("round %d: received %v", round, got)
				}
				transmitAll(t, rb.Queues(0)[0], got)
				if back := b.receive(); !bytes.Equal(back, want) {
					t.Errorf("round %d: the other port sends %x", round, back)
				}
				back := udp(rb.MAC, 1, 8, 100)
				b.send(back)
				transmitAll(t, ra.Queues(0)[1], receiveAll(rb.Queues(0), 1))
				if sent := a.receive(); !bytes.Equal(sent, back) {
					t.Errorf("round %d: the port sends %x", round, sent)
				}
			}
		})
	}
}

// Reopen refuses an interface that differs from the old one. The port is unchanged and can be
// reopened after a fix.
func TestReopenRefuses(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 2)
	w := newWorker(t, 2048)
	s := open(t, Config{Ports: ports(Auto, "ra"), Workers: []WorkerMemory{w}, RingSize: 256})
	refuse := func(want string) {
		t.Helper()
		if err := s.Ports[0].Reopen(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	deleteLink(t, "ra")
	refuse(`reopen port ra: this network namespace has no interface "ra"`)
	addVeth(t, "ra", "a", 1)
	refuse("the interface has 1 queues and had 2")
	deleteLink(t, "ra")
	addVeth(t, "ra", "a", 2)
	setMTU(t, "ra", 9000)
	refuse("MTU of 9000")
	if attached(t, "ra") {
		t.Error("a program is on an interface that was refused")
	}
	setMTU(t, "ra", 1500)
	require.NoError(t, s.Ports[0].Reopen())
	refuse("not yet switched")
	deleteLink(t, "ra") // before a worker switches
	addVeth(t, "ra", "a", 2)
	require.NoError(t, s.Ports[0].Reopen())
	require.NoError(t, s.Ports[0].SetMAC(s.Ports[0].MAC))
	for _, q := range s.Ports[0].Queues(0) {
		q.Refill()
	}
	works(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	refuse("the port is closed")
}

// Large frames in the rings of a deleted interface return to the pool whole or not at all: none is
// reused while a part of it is elsewhere.
func TestReopenWithJumboFrames(t *testing.T) {
	enterNamespace(t)
	addJumbo(t, "ra", "a", 9000)
	w := newLargeWorker(t, 2048, 8)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}, RingSize: 256})
	ra := s.Ports[0]
	q := ra.Queues(0)[0]
	for round := range 3 {
		newWire(t, "a").send(udp(ra.MAC, 1, 1, 9000)) // stays in the ring except its first descriptor
		if n := q.Receive(make([]batch.Frame, 1)); n != 0 || !q.multi.open {
			t.Fatalf("received %d frames where one has begun", n)
		}
		deleteLink(t, "ra")
		f := batch.Frame{Addr: w.Pool.TakeLarge() + umem.DataOffset, Len: 9000}
		if n := q.Transmit([]batch.Frame{f}); n != 1 { // to no receiver
			t.Fatalf("transmitted %d of 1", n)
		}
		addJumbo(t, "ra", "a", 9000)
		require.NoError(t, ra.Reopen())
		require.NoError(t, ra.SetMAC(ra.MAC))
		q.Refill()
		if n := w.Pool.Len() + q.receiving; n != w.Memory.Frames() || w.Pool.LargeLen() != 8 {
			t.Errorf("round %d: %d frames of %d and %d large ones of 8 are left", round, n, w.Memory.Frames(), w.Pool.LargeLen())
		}
		wire, want := newWire(t, "a"), udp(ra.MAC, 1, 2, 8000)
		wire.send(want)
		got := receiveAll(ra.Queues(0), 1)
		if len(got) != 1 || !bytes.Equal(bytesOf(w, got[0]), want) {
			t.Fatalf("round %d: received %v", round, got)
		}
		transmitAll(t, q, got)
		if back := wire.receive(); !bytes.Equal(back, want) {
			t.Errorf("round %d: %d bytes came out, or others", round, len(back))
		}
	}
}

// A worker does not wait while another port is being reopened: it switches sockets later.
func TestWorkersDoNotWaitForReopen(t *testing.T) {
	q := &Queue{mu: &sync.Mutex{}, pool: &umem.Pool{}}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next.Store(&socket{})
	done := make(chan struct{})
	go func() { q.Refill(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("it waits")
	}
	if q.next.Load() == nil {
		t.Error("the new socket was taken up")
	}
}
