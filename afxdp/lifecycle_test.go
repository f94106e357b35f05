package afxdp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/warproute/warproute/internal/require"
)

// TestCloseAndOpenAgain closes and opens several times in a row, with frames in the rings.
func TestCloseAndOpenAgain(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 2)
			addVeth(t, "rb", "b", 2)
			for range 4 {
				w := newWorker(t, 1024)
				s, err := Open(Config{Ports: ports(mode, "ra", "rb"), Workers: []WorkerMemory{w}, RingSize: 64})
				require.NoError(t, err)
				require.NoError(t, s.Admit())
				works(t, s)
				s.Ports[1].Queues(0)[0].Transmit(compose(w, otherMAC, 10, 60))
				for range 2 {
					require.NoError(t, s.Close())
				}
				if attached(t, "ra") || attached(t, "rb") {
					t.Fatal("an XDP program is left after Close")
				}
			}
		})
	}
}

// TestDetachKeepsRings detaches a port with frames in its RX ring, receives them and transmits
// them.
func TestDetachKeepsRings(t *testing.T) {
	_, s := openVeths(t, Native, 256, 64, "ra")
	wire, q := newWire(t, "a"), s.Ports[0].Queues(0)[0]
	for i := range uint32(5) {
		wire.send(udp(s.Ports[0].MAC, 1, i, 60))
	}
	for range 2 {
		require.NoError(t, s.Detach())
	}
	if attached(t, "ra") {
		t.Error("an XDP program is left after Detach")
	}
	wire.send(udp(s.Ports[0].MAC, 1, 99, 60))
	got := receiveAll([]*Queue{q}, 6)
	if len(got) != 5 {
		t.Errorf("%d frames received, want the 5 from before Detach", len(got))
	}
	transmitAll(t, q, got)
	for i := range got {
		if wire.receive() == nil {
			t.Errorf("frame %d was not transmitted", i)
		}
	}
}

// TestInterfaceDeleted deletes the interface of an open port.
func TestInterfaceDeleted(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			w, s := openVeths(t, mode, 256, 64, "ra", "rb")
			l, err := netlink.LinkByName("rb")
			require.NoError(t, err)
			require.NoError(t, netlink.LinkDel(l))
			q := s.Ports[1].Queues(0)[0]
			q.Refill()
			if got := receiveAll([]*Queue{q}, 1); len(got) != 0 {
				t.Errorf("%d frames received from an interface that is gone", len(got))
			}
			if n, transmitting := q.Transmit(compose(w, otherMAC, 10, 60)), q.Reclaim(); n != 10 || transmitting != 10 {
				t.Errorf("%d frames taken, %d transmitting, want 10: an interface that is gone sends nothing", n, transmitting)
			}
			if _, err := s.Ports[1].Stats(); err != nil {
				t.Error(err)
			}
			works(t, s)
		})
	}
}

// Frames go to Linux until Admit, even after SetMAC.
func TestAdmit(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w := newWorker(t, 64)
	s, err := Open(Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
	require.NoError(t, err)
	defer s.Close()
	p, sender := s.Ports[0], newWire(t, "a")
	require.NoError(t, p.SetMAC(p.MAC))
	frame := udp(p.MAC, 1, 2, 60)
	sender.send(frame)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		st, err := p.Stats()
		require.NoError(t, err)
		if st.Frames[OtherMAC] > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the frame did not go to Linux: %v", st.Frames)
		}
	}
	require.NoError(t, s.Admit())
	sender.send(frame)
	if got := receiveAll(p.Queues(0), 1); len(got) != 1 || !bytes.Equal(bytesOf(w, got[0]), frame) {
		t.Errorf("received %v after Admit", got)
	}
}

// A paused port passes all frames to Linux, also after SetMAC and Admit.
func TestPauseAndResume(t *testing.T) {
	_, s := openVeths(t, Native, 64, 64, "ra")
	p, sender := s.Ports[0], newWire(t, "a")
	frame := udp(p.MAC, 1, 2, 60)
	for _, again := range []func() error{func() error { return nil }, func() error { return p.SetMAC(p.MAC) }, s.Admit} {
		before, err := p.Stats()
		err = errors.Join(err, p.Pause(), again())
		require.NoError(t, err)
		sender.send(frame)
		if got := receiveAll(p.Queues(0), 1); len(got) != 0 {
			t.Fatalf("received %v from a paused port", got)
		}
		if after, err := p.Stats(); err != nil || after.Frames[OtherMAC] != before.Frames[OtherMAC]+1 {
			t.Errorf("Linux got %d frames (%v)", after.Frames[OtherMAC]-before.Frames[OtherMAC], err)
		}
		require.NoError(t, p.Resume())
		sender.send(frame)
		if got := receiveAll(p.Queues(0), 1); len(got) != 1 {
			t.Fatal("nothing is received after Resume")
		}
	}
}
