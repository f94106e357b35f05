package afxdp

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
)

// compose takes n frames from the pool and writes numbered packets into them.
func compose(w WorkerMemory, dst [6]byte, n, length int) (frames []batch.Frame) {
	for i := range n {
		f := batch.Frame{Addr: w.Pool.Take() + 258, Len: uint16(length)}
		copy(bytesOf(w, f), udp(dst, 1, uint32(i), length))
		frames = append(frames, f)
	}
	return frames
}

// transmitAll transmits frames and reclaims them, within a second.
func transmitAll(t *testing.T, q *Queue, frames []batch.Frame) {
	t.Helper()
	total := len(frames)
	for end := time.Now().Add(time.Second); len(frames) > 0 || q.Reclaim() > 0; {
		frames = frames[q.Transmit(frames):]
		if time.Now().After(end) {
			t.Fatalf("of %d frames, %d not taken and %d not sent after a second", total, len(frames), q.Reclaim())
		}
	}
}

// TestTransmitDrains transmits bursts that are shorter and longer than the budget of a system call
// and than the ring: each frame is sent, in order, and returns to the pool.
func TestTransmitDrains(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		for _, budget := range []uint32{defaultBudget, 2048} {
			t.Run(fmt.Sprintf("%v budget %d", mode, budget), func(t *testing.T) {
				enterNamespace(t)
				addVeth(t, "ra", "a", 1)
				w := newWorker(t, 16384)
				s := open(t, Config{Ports: ports(mode, "ra"), Workers: []WorkerMemory{w}})
				q, out := s.Ports[0].Queues(0)[0], newWire(t, "a")
				q.setBudget(budget)
				for _, n := range []int{1, 31, 32, 33, 200, 2047, 2048, 2049, 5000} {
					before := w.Pool.Len()
					transmitAll(t, q, compose(w, otherMAC, n, 60))
					if got := w.Pool.Len(); got != before {
						t.Fatalf("%d frames: the pool had %d frames and now has %d", n, before, got)
					}
					for i := range n {
						if got, want := out.receive(), udp(otherMAC, 1, uint32(i), 60); !bytes.Equal(got, want) {
							t.Fatalf("frame %d of %d:\n got %x\nwant %x", i, n, got, want)
						}
					}
				}
			})
		}
	}
}

// TestTransmitOneCall checks that one call of Transmit leaves nothing in the ring.
func TestTransmitOneCall(t *testing.T) {
	w, s := openVeths(t, Native, 8192, 256, "ra")
	q := s.Ports[0].Queues(0)[0]
	q.setBudget(defaultBudget)
	frames := compose(w, otherMAC, 3000, 60)
	if n := q.Transmit(frames); n != len(frames) {
		t.Errorf("transmitted %d of %d frames over a ring of 256", n, len(frames))
	}
	if n := q.tx.level(); n != 0 {
		t.Errorf("%d frames are left in the ring", n)
	}
}

// TestTransmitInterfaceDown checks that a port that is down takes no frames, and that Reclaim sends
// those in its ring when it is up again.
func TestTransmitInterfaceDown(t *testing.T) {
	w, s := openVeths(t, Native, 1024, 64, "ra")
	q, out := s.Ports[0].Queues(0)[0], newWire(t, "a")
	setUp(t, "ra", false)

	frames := compose(w, otherMAC, 100, 60)
	n := q.Transmit(frames)
	if n != 64 {
		t.Fatalf("transmitted %d frames into a ring of 64 while down", n)
	}
	if k := q.Transmit(frames[n:]); k != 0 {
		t.Fatalf("transmitted %d frames into a full ring", k)
	}
	if k := q.Reclaim(); k != 64 {
		t.Fatalf("%d frames pending while down, want 64", k)
	}
	setUp(t, "ra", true)
	transmitAll(t, q, frames[n:])
	for i := range frames {
		if got, want := out.receive(), udp(otherMAC, 1, uint32(i), 60); !bytes.Equal(got, want) {
			t.Fatalf("frame %d after the port came up:\n got %x\nwant %x", i, got, want)
		}
	}
}

// TestTransmitNoCarrier checks that frames return at once without a carrier, although the kernel
// drops only one per system call.
func TestTransmitNoCarrier(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w := newWorker(t, 4096)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}})
	q := s.Ports[0].Queues(0)[0]
	setUp(t, "a", false)
	before := w.Pool.Len()
	if n := q.Transmit(compose(w, otherMAC, 2000, 60)); n != 2000 {
		t.Errorf("transmitted %d of 2000 frames", n)
	}
	if n := q.Reclaim(); n != 0 {
		t.Errorf("%d frames are pending without a carrier", n)
	}
	if got := w.Pool.Len(); got != before {
		t.Errorf("the pool had %d frames and now has %d", before, got)
	}
}
