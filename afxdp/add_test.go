package afxdp

import (
	"os"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// openAdding opens port ra, with memory for one more queue.
func openAdding(t *testing.T, mode Mode) (WorkerMemory, *Set) {
	t.Helper()
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w := newWorker(t, 4096)
	return w, open(t, Config{Ports: ports(mode, "ra"), Workers: []WorkerMemory{w}, RingSize: 256, AddedQueues: 1})
}

// A port is added, receives, and is removed, with its interface or after it was deleted, again and again. Frames in its
// rings return, and no descriptor is left.
func TestPortsAreAddedAndRemoved(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			w, s := openAdding(t, mode)
			s.Ports[0].Queues(0)[0].Refill()
			free, before := w.Pool.Len(), 0
			for round := range 10 {
				addVeth(t, "rb", "b", 1)
				p, err := s.Add(1, PortConfig{Interface: "rb", Mode: mode})
				require.NoError(t, err)
				q := p.Queues(0)[0]
				if q.share != FramesPerAddedQueue(256)/2 {
					t.Errorf("a share of %d frames", q.share)
				}
				q.Refill()
				require.NoError(t, p.Admit())
				b := newWire(t, "b")
				for range 3 {
					b.send(udp(p.MAC, 1, 1, 60))
				}
				got := receiveAll(p.Queues(0), 1)
				if len(got) == 0 || got[0].Origin.Port() != 1 {
					t.Fatalf("round %d: received %v", round, got)
				}
				for _, f := range got {
					w.Pool.Put(f.Addr)
				}
				if round%2 == 0 {
					deleteLink(t, "rb")
				}
				require.NoError(t, p.Detach())
				if packets, bytes := q.Release(); packets != 0 || bytes != 0 {
					t.Errorf("%d packets of %d bytes to transmit", packets, bytes)
				}
				last, lost, err := s.Remove(1)
				require.NoError(t, err)
				if last.Frames[ToSocket] != 3 || uint64(len(got))+last.RxDropped != 3 || lost != 0 {
					t.Errorf("round %d: received %d, %+v, %d lost", round, len(got), last, lost)
				}
				if w.Pool.Len() != free {
					t.Fatalf("round %d: %d free frames of %d", round, w.Pool.Len(), free)
				}
				if round%2 == 1 {
					if attached(t, "rb") {
						t.Error("the program is still attached")
					}
					deleteLink(t, "rb")
				}
				if _, err := p.Stats(); err == nil {
					t.Error("a removed port has counters")
				}
				if now := descriptors(t); round == 1 {
					before = now
				} else if round > 1 && now > before+round { // the packet socket of each wire is open until the end
					t.Errorf("round %d: %d descriptors, then %d", round, before, now)
				}
			}
			works(t, s)
		})
	}
}

// A port that cannot be added leaves nothing behind: not its program, not its memory.
func TestAddFails(t *testing.T) {
	_, s := openAdding(t, Native)
	addVeth(t, "rb", "b", 1)
	addVeth(t, "rc", "c", 1)
	before := descriptors(t)
	refused := func(number int, name string, mode Mode, want string) {
		t.Helper()
		if _, err := s.Add(number, PortConfig{Interface: name, Mode: mode}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("port %d, %s: %v, want %q", number, name, err, want)
		}
		if l := name; l != "missing0" && l != "ra" && attached(t, l) {
			t.Errorf("the program is attached to %s", l)
		}
	}
	for range 3 {
		refused(1, "rb", ZeroCopy, "open port rb: ")
	}
	refused(0, "rb", Native, "port 0 is ra")
	refused(1, "ra", Native, "port 0 is ra")
	refused(1, "missing0", Native, `no interface "missing0"`)
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors, then %d", before, now)
	}
	_, err := s.Add(1, PortConfig{Interface: "rb", Mode: Native})
	require.NoError(t, err)
	refused(2, "rc", Native, "max_ports")
	require.NoError(t, s.Close())
	if _, err := s.Add(2, PortConfig{Interface: "rc", Mode: Native}); err == nil {
		t.Error("a closed set has added a port")
	}
}

// A port that replaces one of the start has the memory of it.
func TestAddedPortHasTheShareOfARemovedOne(t *testing.T) {
	w, s := openAdding(t, Native)
	share := s.Ports[0].queues[0].share
	for range 3 {
		p := s.Ports[0]
		require.NoError(t, p.Detach())
		p.queues[0].Release()
		_, _, err := s.Remove(0)
		require.NoError(t, err)
		p, err = s.Add(0, PortConfig{Interface: "ra", Mode: Native})
		require.NoError(t, err)
		if p.queues[0].share != share {
			t.Fatalf("a share of %d frames, the first had %d", p.queues[0].share, share)
		}
		p.queues[0].Refill()
	}
	if n := w.Pool.Len() + s.Ports[0].queues[0].receiving; n != w.Memory.Frames() {
		t.Errorf("%d frames of %d", n, w.Memory.Frames())
	}
}
