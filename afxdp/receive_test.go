package afxdp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
)

// TestQueuesAndWorkers receives flows on the four queues of a port: each frame once, in the memory
// of the worker of its queue. Then it transmits on every queue.
func TestQueuesAndWorkers(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 4)
			addVeth(t, "rb", "b", 2)
			workers := []WorkerMemory{newWorker(t, 2048), newWorker(t, 2048)}
			s := open(t, Config{Ports: ports(mode, "ra", "rb"), Workers: workers, RingSize: 256})
			p := s.Ports[0]
			for port, want := range []int{2, 1} {
				for worker := range workers {
					if n := len(s.Ports[port].Queues(worker)); n != want {
						t.Fatalf("port %d, worker %d: %d queues, want %d", port, worker, n, want)
					}
				}
			}

			const flows = 200
			in := newWire(t, "a")
			for i := range flows {
				in.send(udp(p.MAC, uint16(i), uint32(i), 100))
			}
			seen := make([]int, flows)
			total, used := 0, map[*Queue]bool{}
			for end := time.Now().Add(time.Second); total < flows && time.Now().Before(end); {
				for worker, w := range workers {
					for _, q := range p.Queues(worker) {
						buf := make([]batch.Frame, 64)
						n := q.Receive(buf)
						for _, f := range buf[:n] {
							b := bytesOf(w, f)
							i := binary.BigEndian.Uint32(b[len(b)-4:])
							if !bytes.Equal(b, udp(p.MAC, uint16(i), i, 100)) {
								t.Fatalf("flow %d, worker %d: got %x", i, worker, b)
							}
							seen[i]++
							total++
							used[q] = true
						}
					}
				}
			}
			for i, n := range seen {
				if n != 1 {
					t.Errorf("the frame of flow %d was received %d times", i, n)
				}
			}
			if len(used) < 2 {
				t.Errorf("frames came by %d queues, so more than one was not tried", len(used))
			}

			out := newWire(t, "b")
			for worker, w := range workers {
				for _, q := range s.Ports[1].Queues(worker) {
					transmitAll(t, q, compose(w, otherMAC, 3, 60))
					for i := range uint32(3) {
						if got, want := out.receive(), udp(otherMAC, 1, i, 60); !bytes.Equal(got, want) {
							t.Fatalf("worker %d, frame %d:\n got %x\nwant %x", worker, i, got, want)
						}
					}
				}
			}
		})
	}
}

// TestQueueWithoutSocket removes the socket of a queue: its frames are dropped and counted, and do
// not go to Linux.
func TestQueueWithoutSocket(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			_, s := openVeths(t, mode, 256, 64, "ra")
			p := s.Ports[0]
			require.NoError(t, p.program.Sockets.Delete(uint32(0)))
			in, linux := newWire(t, "a"), newWire(t, "ra")
			for i := range uint32(10) {
				in.send(udp(p.MAC, 1, i, 60))
			}
			if got := receiveAll(p.Queues(0), 1); len(got) != 0 {
				t.Errorf("%d frames were received by a socket that the program does not know", len(got))
			}
			st, err := p.Stats()
			require.NoError(t, err)
			if st.Frames[NoSocket] != 10 || st.Frames[ToSocket] != 0 {
				t.Errorf("of 10 frames, %d counted as dropped and %d as given to a socket", st.Frames[NoSocket], st.Frames[ToSocket])
			}
			if mode == Native { // in generic mode a packet socket has its copy before the program runs
				if got := linux.receive(); got != nil {
					t.Errorf("a frame leaked to Linux: %x", got)
				}
			}
		})
	}
}

// TestPassReachesLinux checks that host traffic arrives at a packet socket of the port, and other
// traffic does not.
func TestPassReachesLinux(t *testing.T) {
	w, s := openVeths(t, Native, 256, 64, "ra")
	p := s.Ports[0]
	own := netip.MustParseAddr("198.19.0.1") // where udp sends to
	in, linux := newWire(t, "a"), newWire(t, "ra")

	in.send(udp(p.MAC, 1, 1, 60))
	require.NoError(t, s.AddLocal(own))
	in.send(udp(p.MAC, 1, 2, 60))
	if got, want := linux.receive(), udp(p.MAC, 1, 2, 60); !bytes.Equal(got, want) {
		t.Errorf("Linux got %x\nwant %x", got, want)
	}
	if got := receiveAll(p.Queues(0), 2); len(got) != 1 || !bytes.Equal(bytesOf(w, got[0]), udp(p.MAC, 1, 1, 60)) {
		t.Errorf("the socket got %d frames, want the first alone", len(got))
	}
}

// TestBusyPoll receives and transmits while the worker's system calls poll the driver.
func TestBusyPoll(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w := newWorker(t, 1024)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}, RingSize: 64, BusyPoll: 20 * time.Microsecond})
	p := s.Ports[0]
	wire := newWire(t, "a")
	for i := range uint32(100) {
		want := udp(p.MAC, 1, i, 100)
		wire.send(want)
		got := receiveAll(p.Queues(0), 1)
		if len(got) != 1 || !bytes.Equal(bytesOf(w, got[0]), want) {
			t.Fatalf("frame %d was not received", i)
		}
		transmitAll(t, p.Queues(0)[0], got)
		if back := wire.receive(); !bytes.Equal(back, want) {
			t.Fatalf("frame %d came back as %x", i, back)
		}
	}
}

// TestNoAllocations runs the whole loop of a worker.
func TestNoAllocations(t *testing.T) {
	_, s := openVeths(t, Native, 1024, 64, "ra")
	q := s.Ports[0].Queues(0)[0]
	wire := newWire(t, "a")
	frame := udp(s.Ports[0].MAC, 1, 1, 60)
	buf := make([]batch.Frame, 64)
	forwarded := 0
	allocs := testing.AllocsPerRun(50, func() {
		for range 8 {
			wire.send(frame)
		}
		for range 100 {
			q.Refill()
			n := q.Receive(buf)
			forwarded += q.Transmit(buf[:n])
			q.Reclaim()
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a run", allocs)
	}
	if forwarded < 400 {
		t.Errorf("only %d frames were forwarded in 51 runs of 8", forwarded)
	}
}
