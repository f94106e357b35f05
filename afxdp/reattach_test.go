package afxdp

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// A program that is attached again gets the frames on the same sockets, and its counters go on.
func TestReattachedPortsReceive(t *testing.T) {
	for _, mode := range []Mode{Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			enterNamespace(t)
			addVeth(t, "ra", "a", 2)
			w := newWorker(t, 2048)
			s := open(t, Config{Ports: ports(mode, "ra"), Workers: []WorkerMemory{w}, RingSize: 256})
			ra, a := s.Ports[0], newWire(t, "a")
			for round := range uint32(3) {
				want := udp(ra.MAC, 1, round, 100)
				a.send(want)
				if got := receiveAll(ra.Queues(0), 1); len(got) != 1 || !bytes.Equal(bytesOf(w, got[0]), want) {
					t.Fatalf("round %d: received %v", round, got)
				}
				if st, err := ra.Stats(); err != nil || st.Frames[ToSocket] != uint64(round)+1 {
					t.Errorf("round %d: %+v, %v", round, st, err)
				}
				require.NoError(t, ra.Reattach())
				if !attached(t, "ra") {
					t.Error("no program is attached")
				}
			}
			deleteLink(t, "ra")
			if err := ra.Reattach(); err == nil {
				t.Error("a deleted interface has the program")
			}
			require.NoError(t, ra.Detach())
			if err := ra.Reattach(); err == nil || !strings.Contains(err.Error(), "it was detached") {
				t.Errorf("a port that is being removed: %v", err)
			}
			require.NoError(t, s.Close())
			if err := ra.Reattach(); !errors.Is(err, errClosed) {
				t.Errorf("a closed port: %v", err)
			}
		})
	}
}
