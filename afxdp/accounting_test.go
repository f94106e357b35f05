package afxdp

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// TestEveryFrameIsAccountedFor floods a port whose worker has too few frames and is too slow, also
// with frames that are too long, detaches it meanwhile, and checks that the counters add up.
func TestEveryFrameIsAccountedFor(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 1)
			setMTU(t, "ra", umem.MaxMTU) // veth accepts 4 bytes more, for a VLAN tag
			setMTU(t, "a", 3000)
			w := newWorker(t, 1024)
			s := open(t, Config{Ports: ports(mode, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
			p := s.Ports[0]
			q := p.Queues(0)[0]
			in := newWire(t, "a")

			received := 0
			buf := make([]batch.Frame, 16)
			for i := range uint32(3000) {
				length := 60
				if i%10 == 0 {
					length = umem.MaxFrameLen + 4
				}
				in.send(udp(p.MAC, 1, i, length))
				if i%40 == 0 {
					received += q.Receive(buf)
				}
				if i == 1000 { // first without frames to receive into
					q.Refill()
				}
				if i == 2500 {
					require.NoError(t, s.Detach())
				}
			}
			for n := 1; n > 0; received += n {
				n = q.Receive(buf)
			}
			st, err := p.Stats()
			require.NoError(t, err)
			t.Logf("received %d, %+v", received, st)
			if got := uint64(received) + st.RxDropped + st.RxRingFull; got != st.Frames[ToSocket] {
				t.Errorf("%d received + %d dropped + %d with the ring full = %d, but the program gave %d to the socket",
					received, st.RxDropped, st.RxRingFull, got, st.Frames[ToSocket])
			}
			if got := st.Frames[ToSocket]; got < 2000 || got > 2501 {
				t.Errorf("the program gave %d frames to the socket; 2501 were sent before it was detached", got)
			}
			if received == 0 || st.RxDropped == 0 || st.RxRingFull == 0 || st.RxFillEmpty == 0 {
				t.Error("one of the ways to lose a frame, or to receive one, was not tried")
			}
			if st.RxLevel != 0 {
				t.Errorf("%d frames are left in the RX ring", st.RxLevel)
			}
			require.NoError(t, s.Close())
			if _, err := p.Stats(); err == nil {
				t.Error("Stats of a closed port returned no error")
			}
		})
	}
}

// TestRefillSharesMemory opens two ports with little memory: neither takes all of it.
func TestRefillSharesMemory(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	w := newWorker(t, 1024)
	s := open(t, Config{Ports: ports(Native, "ra", "rb"), Workers: []WorkerMemory{w}})
	for i, p := range s.Ports {
		p.Queues(0)[0].Refill()
		st, err := p.Stats()
		require.NoError(t, err)
		if st.FillLevel != 256 {
			t.Errorf("port %d has %d frames of 1024 to receive into, want 256", i, st.FillLevel)
		}
	}
	if n := w.Pool.Len(); n != 512 {
		t.Errorf("%d frames are left in the pool, want 512", n)
	}
}

// TestFramesCirculate forwards many more frames than the memory has, and then checks that each is
// in the pool or a ring.
func TestFramesCirculate(t *testing.T) {
	w, s := openVeths(t, Native, 1024, 64, "ra")
	q := s.Ports[0].Queues(0)[0]
	wire := newWire(t, "a")
	buf := make([]batch.Frame, 64)
	for i := range 5000 {
		wire.send(udp(s.Ports[0].MAC, 1, uint32(i), 60))
		n := q.Receive(buf)
		if n != 1 {
			t.Fatalf("frame %d: received %d", i, n)
		}
		if i%2 == 0 {
			transmitAll(t, q, buf[:n])
		} else {
			w.Pool.Put(buf[0].Addr)
		}
		q.Refill()
	}
	free, waiting := w.Pool.Len(), int(q.fill.level())
	if free+waiting != w.Memory.Frames() {
		t.Errorf("%d frames in the pool and %d in the fill ring, of %d", free, waiting, w.Memory.Frames())
	}
}

// A port is deleted with frames in its ring, created and reopened under load: every frame that the
// program redirected is received or counted as lost.
func TestReopenAccountsForEveryFrame(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			_, s := openVeths(t, mode, 2048, 256, "ra")
			ra := s.Ports[0]
			q := ra.Queues(0)[0]
			in := newWire(t, "a")
			for range 100 {
				in.send(udp(ra.MAC, 1, 1, 60))
			}
			received := q.Receive(make([]batch.Frame, 30)) // and 70 stay
			deleteLink(t, "ra")
			addVeth(t, "ra", "a", 1)
			stop := flood(t, "a", udp(ra.MAC, 1, 2, 60))
			require.NoError(t, ra.Reopen())
			received += len(receiveAll([]*Queue{q}, 1000))
			stop()
			require.NoError(t, s.Detach())
			received += len(receiveAll([]*Queue{q}, 1<<20))
			st, err := ra.Stats()
			require.NoError(t, err)
			if got := uint64(received) + st.RxDropped + st.RxRingFull; got != st.Frames[ToSocket] {
				t.Errorf("%d received + %d dropped + %d with the ring full = %d, but the program gave %d to the socket",
					received, st.RxDropped, st.RxRingFull, got, st.Frames[ToSocket])
			}
			t.Logf("%d frames came while the port had no socket", st.Frames[NoSocket])
		})
	}
}
