package afxdp

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// TestForward forwards frames of many lengths between two ports, in both directions and each mode,
// with one memory for both ports.
func TestForward(t *testing.T) {
	for _, mode := range []Mode{Auto, Native, Generic} {
		t.Run(mode.String(), func(t *testing.T) {
			_, s := openVeths(t, mode, 4096, 256, "ra", "rb")
			wires := []*wire{newWire(t, "a"), newWire(t, "b")}

			for in := range 2 {
				out := 1 - in
				from, to := s.Ports[in].Queues(0), s.Ports[out].Queues(0)
				for length := 60; length <= 1514; length += 97 {
					want := udp(s.Ports[in].MAC, 1, uint32(length), length)
					wires[in].send(want)
					got := receiveAll(from, 1)
					if len(got) != 1 {
						t.Fatalf("port %d, %d bytes: %d frames received, want 1", in, length, len(got))
					}
					if int(got[0].Origin.Port()) != in {
						t.Errorf("a frame of port %d says port %d", in, got[0].Origin.Port())
					}
					if got[0].Addr%2048 != 258 {
						t.Errorf("a frame starts %d bytes into its memory, want 258", got[0].Addr%2048)
					}
					if n := to[0].Transmit(got); n != 1 {
						t.Fatalf("transmitted %d of 1", n)
					}
					if back := wires[out].receive(); !bytes.Equal(back, want) {
						t.Fatalf("port %d to %d, %d bytes:\n got %x\nwant %x", in, out, length, back, want)
					}
				}
			}
			for i, p := range s.Ports {
				t.Logf("%s: %v: %s", p.Name, p.Mode, p.ModeReason)
				st, err := p.Stats()
				require.NoError(t, err)
				if n := st.Frames[ToSocket]; n != 15 {
					t.Errorf("port %d: %d frames to the socket, want 15 (%+v)", i, n, st)
				}
			}
		})
	}
}
