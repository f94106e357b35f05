package afxdp

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/batch"
)

// A port under load is deleted with frames in its ring and made again, and load goes on
// from before it is opened: every frame that the program gave to a socket was received or
// is counted as lost.
func TestReopeningAccountsForEveryFrame(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 1)
			w := newWorker(t, 2048)
			s := open(t, Config{Ports: ports(mode, "ra"), Workers: []WorkerMemory{w}, RingSize: 256})
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
			if err := ra.Reopen(); err != nil {
				t.Fatal(err)
			}
			received += len(receiveAll([]*Queue{q}, 1000))
			stop()
			if err := s.Detach(); err != nil {
				t.Fatal(err)
			}
			received += len(receiveAll([]*Queue{q}, 1<<20))
			st, err := ra.Stats()
			if err != nil {
				t.Fatal(err)
			}
			if got := uint64(received) + st.RxDropped + st.RxRingFull; got != st.Frames[ToSocket] {
				t.Errorf("%d received + %d dropped + %d with the ring full = %d, but the program gave %d to the socket",
					received, st.RxDropped, st.RxRingFull, got, st.Frames[ToSocket])
			}
			t.Logf("%d frames came while the port had no socket", st.Frames[NoSocket])
		})
	}
}

// flood sends a frame again and again by an interface, until it is stopped.
func flood(t testing.TB, name string, frame []byte) (stop func()) {
	w := newWire(t, name)
	w.send(frame)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_, _ = unix.Write(w.fd, frame)
			}
		}
	}()
	return func() { close(end); <-ended }
}
