package afxdp

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// newLargeWorker is newWorker with large frames.
func newLargeWorker(t testing.TB, frames, large int) WorkerMemory {
	t.Helper()
	m, err := umem.NewLarge(frames, large)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return WorkerMemory{Memory: m, Pool: umem.NewPool(m)}
}

// addJumbo creates a port and its peer with an MTU.
func addJumbo(t testing.TB, name, peer string, mtu int) {
	t.Helper()
	addVeth(t, name, peer, 1)
	setMTU(t, name, mtu)
	setMTU(t, peer, mtu)
}

// Frames of all lengths up to the MTU, above the length of a small frame, are forwarded unchanged,
// and all memory returns.
func TestJumboFramesAreForwarded(t *testing.T) {
	for _, mode := range []Mode{Auto, Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addJumbo(t, "ra", "a", 9000)
			addJumbo(t, "rb", "b", 9000)
			w := newLargeWorker(t, 4096, 32)
			s := open(t, Config{Ports: ports(mode, "ra", "rb"), Workers: []WorkerMemory{w}, RingSize: 256})
			in, out := newWire(t, "a"), newWire(t, "b")
			from, to := s.Ports[0].Queues(0), s.Ports[1].Queues(0)
			n := 0
			for length := 60; length <= 9014; length += 149 {
				n++
				want := udp(s.Ports[0].MAC, 1, uint32(length), length)
				in.send(want)
				got := receiveAll(from, 1)
				if len(got) != 1 || int(got[0].Len) != length || !bytes.Equal(bytesOf(w, got[0]), want) {
					t.Fatalf("%d bytes: received %v", length, got)
				}
				if large := w.Pool.Large(got[0].Addr) >= 0; large != (length > umem.MaxFrameLen) || got[0].Addr%umem.FrameSize != umem.DataOffset {
					t.Errorf("%d bytes lie at %#x", length, got[0].Addr)
				}
				if sent := to[0].Transmit(got); sent != 1 {
					t.Fatalf("transmitted %d of 1", sent)
				}
				if back := out.receive(); !bytes.Equal(back, want) {
					t.Fatalf("%d bytes: %d came out, or others", length, len(back))
				}
			}
			if transmitting := to[0].Reclaim(); transmitting != 0 || w.Pool.LargeLen() != 32 {
				t.Errorf("%d descriptors are being transmitted, %d of 32 large frames are back", transmitting, w.Pool.LargeLen())
			}
			st, err := s.Ports[0].Stats()
			require.NoError(t, err)
			if st.Frames[ToSocket] != uint64(n) || st.RxDropped != 0 {
				t.Errorf("%d frames: %+v", n, st)
			}
		})
	}
}

// A frame is dropped and counted if no large frame is free or it is longer than one. Later frames
// arrive.
func TestJumboFramesWithoutMemoryAreCounted(t *testing.T) {
	enterNamespace(t)
	addJumbo(t, "ra", "a", umem.MaxLargeMTU)
	setMTU(t, "a", umem.MaxLargeMTU+500)
	w := newLargeWorker(t, 4096, 2)
	s := open(t, Config{Ports: ports(Generic, "ra"), Workers: []WorkerMemory{w}, RingSize: 256})
	in, from := newWire(t, "a"), s.Ports[0].Queues(0)
	send := func(number uint32, length int) { in.send(udp(s.Ports[0].MAC, 1, number, length)) }

	send(0, umem.MaxLargeLen+4) // veth accepts 4 bytes above the MTU, for a VLAN tag
	for i := range uint32(5) {
		send(1+i, 9000)
	}
	send(6, 60)
	got := receiveAll(from, 4)
	if len(got) != 3 || got[0].Len != 9000 || got[1].Len != 9000 || got[2].Len != 60 {
		t.Fatalf("received %v, want two jumbo frames and a short one", got)
	}
	st, err := s.Ports[0].Stats()
	require.NoError(t, err)
	if st.RxDropped != 4 || st.Frames[ToSocket] != 7 {
		t.Errorf("%d of %d frames are counted as dropped, want 4 of 7", st.RxDropped, st.Frames[ToSocket])
	}
	for _, f := range got {
		w.Pool.Put(f.Addr)
	}
	send(7, umem.MaxLargeLen)
	if got := receiveAll(from, 1); len(got) != 1 || int(got[0].Len) != umem.MaxLargeLen {
		t.Errorf("afterwards: %v", got)
	}
}

// Transmit takes whole frames only of a burst that does not fit the TX ring.
func TestJumboFramesAreTransmittedWholeOrNot(t *testing.T) {
	enterNamespace(t)
	addJumbo(t, "ra", "a", 9000)
	w := newLargeWorker(t, 1024, 64)
	s := open(t, Config{Ports: ports(Auto, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
	out, q := newWire(t, "a"), s.Ports[0].Queues(0)[0]
	var burst []batch.Frame
	for i := range uint32(40) { // of 5 descriptors and of 1, alternately
		f := batch.Frame{Addr: w.Pool.TakeLarge() + umem.DataOffset, Len: 9014}
		if i%2 == 1 {
			w.Pool.Put(f.Addr)
			f = batch.Frame{Addr: w.Pool.Take() + umem.DataOffset, Len: 60}
		}
		copy(bytesOf(w, f), udp([6]byte{2, 0, 0, 0, 0, 1}, 1, i, int(f.Len)))
		burst = append(burst, f)
	}
	setUp(t, "ra", false) // the kernel takes nothing from the ring meanwhile
	n := q.Transmit(burst)
	if n != 20 { // ten times 5 descriptors and 1 are 60 entries of 64
		t.Errorf("%d frames were taken, want 20", n)
	}
	setUp(t, "ra", true)
	for n < len(burst) {
		q.Reclaim()
		n += q.Transmit(burst[n:])
	}
	for i := range uint32(40) {
		length := 9014 - int(i%2)*(9014-60)
		if got := out.receive(); !bytes.Equal(got, udp([6]byte{2, 0, 0, 0, 0, 1}, 1, i, length)) {
			t.Fatalf("frame %d of %d bytes came out as %d", i, length, len(got))
		}
	}
	for q.Reclaim() > 0 {
	}
	if w.Pool.LargeLen() != 64 {
		t.Errorf("%d of 64 large frames are back", w.Pool.LargeLen())
	}
}

func TestJumboMTUWithoutLargeFramesIsRefused(t *testing.T) {
	enterNamespace(t)
	addJumbo(t, "ra", "a", 9000)
	_, err := Open(Config{Ports: ports(Generic, "ra"), Workers: []WorkerMemory{newWorker(t, 1024)}})
	if err == nil || !strings.Contains(err.Error(), "MTU of 9000: a frame in memory holds 1776 at most") {
		t.Errorf("opened with an MTU of 9000 and short frames: %v", err)
	}
}
