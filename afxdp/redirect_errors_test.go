package afxdp

import (
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/require"
)

// misdirect makes the program of a port redirect to the socket of another port, as happens on a
// bond, whose frames are those of its members.
func misdirect(t *testing.T, p, other *Port) (undo func()) {
	t.Helper()
	put := func(q *Queue) {
		require.NoError(t, p.program.Sockets.Put(uint32(0), uint32(q.fd)))
	}
	put(other.queues[0])
	return func() { put(p.queues[0]) }
}

// refused waits until a port has counted n refused frames.
func refused(t *testing.T, p *Port, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		st, err := p.Stats()
		require.NoError(t, err)
		if st.Refused == n {
			return
		}
		if st.Refused > n || time.Now().After(deadline) {
			t.Fatalf("%d frames counted as refused, want %d: %+v", st.Refused, n, st)
		}
	}
}

// Frames that the kernel refuses to deliver to a socket are counted, while the port is open and
// after detach; other frames are not.
func TestRedirectErrorsAreCounted(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel() // it waits most of the time
			enterNamespace(t)
			addVeth(t, "ra", "a", 1)
			addVeth(t, "rb", "b", 1)
			s := open(t, Config{Ports: ports(mode, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 1024)}, RingSize: 64})
			p, in := s.Ports[0], newWire(t, "a")
			send := func(n int) {
				for i := range uint32(n) {
					in.send(udp(p.MAC, 1, i, 60))
				}
			}
			undo := misdirect(t, p, s.Ports[1])
			send(20)
			undo()
			send(100) // of which the ring holds 64
			received := len(receiveAll(p.Queues(0), 1<<20))
			refused(t, p, 20)
			misdirect(t, p, s.Ports[1])
			send(7)
			require.NoError(t, s.Detach())
			st, err := p.Stats()
			require.NoError(t, err)
			if st.Refused != 27 || uint64(received)+st.RxDropped+st.RxRingFull+st.Refused != st.Frames[ToSocket] || st.Frames[ToSocket] != 127 {
				t.Errorf("27 of 127 frames were refused; received %d, %+v", received, st)
			}
		})
	}
}

// Under load no delivered frame counts as refused, however often the counters are read, and all
// refused frames are counted.
func TestRedirectErrorsAreCountedUnderLoad(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			w, s := openVeths(t, mode, 2048, 256, "ra", "rb")
			p := s.Ports[0]
			end := make(chan struct{})
			var worker sync.WaitGroup
			work := func(buf []batch.Frame) int {
				q := p.queues[0]
				q.Refill()
				n := q.Receive(buf)
				for _, f := range buf[:n] {
					w.Pool.Put(f.Addr)
				}
				return n
			}
			worker.Go(func() {
				buf := make([]batch.Frame, 64)
				for {
					select {
					case <-end:
						return
					default:
						work(buf)
					}
				}
			})
			stop := flood(t, "a", udp(p.MAC, 1, 1, 60))
			for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); {
				if st, err := p.Stats(); err != nil || st.Refused != 0 {
					t.Fatalf("of a flood, %d frames are taken for refused ones (%v)", st.Refused, err)
				}
			}
			undo := misdirect(t, p, s.Ports[1])
			var during PortStats
			for deadline := time.Now().Add(5 * time.Second); during.Refused == 0 && time.Now().Before(deadline); {
				during, _ = p.Stats()
			}
			undo()
			if during.Refused == 0 {
				t.Error("refused frames are not noticed under load")
			}
			stop()
			require.NoError(t, s.Detach())
			close(end)
			worker.Wait()
			for buf := make([]batch.Frame, 64); work(buf) > 0; {
			}
			st, err := p.Stats()
			require.NoError(t, err)
			got := p.queues[0].received.Load() + st.RxDropped + st.RxRingFull + st.Refused
			if got != st.Frames[ToSocket] || st.Refused < during.Refused {
				t.Errorf("%d frames are accounted for of %d: %+v", got, st.Frames[ToSocket], st)
			}
		})
	}
}

func TestRedirectErrorsOfUnsynchronizedCounters(t *testing.T) {
	var r redirectErrors
	at := time.Unix(0, 0)
	for i, step := range []struct {
		after           time.Duration
		directed, found uint64
		detached        bool
		want            uint64
	}{
		{2 * time.Second, 100, 40, false, 0},       // 60 may be in flight
		{time.Millisecond, 100, 90, false, 0},      // most have arrived
		{time.Second, 100, 90, false, 10},          // the rest is lost
		{time.Millisecond, 1000, 1500, false, 10},  // more found than redirected before
		{time.Millisecond, 5000, 4000, false, 744}, // more than a round
		{time.Second, 1_000_000, 9000, false, 1e6 - 9000 - 256},
		{time.Second, 2_000_000, 2_000_000, false, 1e6 - 9000 - 256}, // it never decreases
		{time.Millisecond, 3_000_000, 1_999_999, true, 1_000_001},
	} {
		at = at.Add(step.after)
		if got := r.update(step.directed, step.found, 1, at, step.detached); got != step.want {
			t.Errorf("step %d: %d refused, want %d", i, got, step.want)
		}
	}
}
