package afxdp

import (
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// inherit prepares a Set for the ports of another one.
func inherit(t *testing.T, from *Set) *Set {
	t.Helper()
	cfg := Config{Workers: []WorkerMemory{newWorker(t, 256)}, RingSize: 64}
	for _, p := range from.Ports {
		in := p.Inherited()
		cfg.Ports = append(cfg.Ports, PortConfig{Interface: p.Name, Inherited: &in})
	}
	return open(t, cfg)
}

// Ports pass to another Set and back. The interfaces always have a program, frames are counted as without a socket in
// between, and the former owner leaves the program when it closes.
func TestPortsAreHandedOver(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 1)
			addVeth(t, "rb", "b", 1)
			s := open(t, Config{Ports: ports(mode, "ra", "rb"), Workers: []WorkerMemory{newWorker(t, 256)}, RingSize: 64})
			works(t, s)
			for i := range 3 {
				next := inherit(t, s)
				if i == 0 {
					if err := next.Bind(); !errors.Is(err, unix.EBUSY) {
						t.Fatalf("bound beside the other set: %v", err)
					}
				}
				works(t, s) // until it withholds frames
				require.NoError(t, s.Withhold())
				newWire(t, "a").send(udp(s.Ports[0].MAC, 1, 1, 60))
				start := time.Now()
				require.NoError(t, s.CloseSockets())
				closed := time.Now()
				links, err := s.Handover()
				require.NoError(t, err)
				require.NoError(t, next.Bind())
				t.Logf("closed in %v, bound in %v", closed.Sub(start), time.Since(closed))
				newWire(t, "a").send(udp(s.Ports[0].MAC, 1, 2, 60))
				st, err := s.Ports[0].Stats()
				require.NoError(t, err)
				if st.Frames[NoSocket] != 2 || st.Frames[ToSocket] != 2 || st.Refused > 0 {
					t.Errorf("%d frames without a socket, %d with one, %d refused", st.Frames[NoSocket], st.Frames[ToSocket], st.Refused)
				}
				require.NoError(t, next.Attach(links))
				require.NoError(t, s.Leave())
				require.NoError(t, s.Close())
				if !attached(t, "ra") || !attached(t, "rb") {
					t.Fatal("the former owner has detached a program")
				}
				works(t, next)
				next.Own()
				s = next
			}
			require.NoError(t, s.Close())
			if attached(t, "ra") || attached(t, "rb") {
				t.Error("the owner has left a program")
			}
		})
	}
}

// A Set that fails with the ports leaves the programs to the former owner, and the former owner can open them again.
func TestFailedHandoverLeavesThePrograms(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{newWorker(t, 256)}, RingSize: 64})
	next := inherit(t, s)
	require.NoError(t, s.Withhold())
	require.NoError(t, s.CloseSockets())
	links, err := s.Handover()
	require.NoError(t, err)
	again, err := s.Handover()
	require.NoError(t, err)
	require.NoError(t, next.Bind())
	require.NoError(t, next.Attach(links))
	require.NoError(t, next.Close())
	if !attached(t, "ra") {
		t.Fatal("the failed set has detached the program")
	}
	last := inherit(t, s)
	require.NoError(t, s.Leave())
	require.NoError(t, s.Close())
	require.NoError(t, last.Bind())
	require.NoError(t, last.Attach(again))
	last.Own()
	works(t, last)
	wrong := inherit(t, last)
	if err := wrong.Attach([]Handover{{"ra", last.Ports[0].Ifindex + 1, -1}}); err == nil || !strings.Contains(err.Error(), "has no program on the interface") {
		t.Errorf("attached to another interface: %v", err)
	}
}
