package dataplane_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
)

func TestReassembledESPIsAuthenticated(t *testing.T) {
	for _, s := range []shape{shapes[0], shapes[4], shapes[5]} {
		e := newESP(t, s)
		sealed := e.seal(e.datagram(30_000, false))
		forged := bytes.Clone(e.seal(e.datagram(30_000, false)))
		forged[len(forged)-100] ^= 1
		again := cut(t, sealed, 2)
		frames := append(append(cut(t, sealed, 1), again...), cut(t, forged, 3)...)
		if s.outer == 4 { // another identification than the forged one's
			for _, f := range again {
				copy(f, testutil.Edit(f, 4, 0xff, 0xfe))
			}
		}
		st := e.pass(0, frames)
		want := map[string]uint64{"xfrm_in_state_seq_error": 1, "xfrm_in_state_proto_error": 1}
		if d := drops(st); fmt.Sprint(d) != fmt.Sprint(want) {
			t.Errorf("%v: drops %v, want %v", s, d, want)
		}
		if n := len(e.whole(1)); n != 1 {
			t.Errorf("%v: %d packets arrived, want 1", s, n)
		}
		if sa := e.ours[ipsec.In].Stats(); sa.Packets != 1 || sa.Replays != 1 || sa.ICVFailures != 1 {
			t.Errorf("%v: %+v", s, sa)
		}
	}
}

func TestFragmentFloodsDoNotEvictExpectedFragments(t *testing.T) {
	for _, s := range []shape{shapes[0], shapes[2], shapes[4], shapes[5]} {
		e := newESP(t, s)
		honest := cut(t, e.seal(e.datagram(65_000, false)), 1)
		dst := espRouter[s.outer]
		if s.mode == ipsec.Transport {
			dst = espNear[s.outer]
		}
		var frames [][]byte
		n := 0
		for _, f := range honest {
			frames = append(frames, f)
			for range 20 {
				n++
				var flood []byte
				if s.outer == 4 {
					flood = testutil.Edit(testutil.Raw4(fmt.Sprintf("198.51.%d.%d", n>>8&0xff, n&0xff), dst, 50, make([]byte, 64)...), 4, byte(n>>8), byte(n), 0x20)
					if s.mode == ipsec.Transport {
						copy(flood[26:30], []byte{10, 0, 0, 10}) // as from the peer
						flood = testutil.Edit(flood, 8, 63)
					}
				} else {
					flood = testutil.Raw6(espFar[6], dst, 44, append([]byte{50, 0, 0, 1, 9, 9, byte(n >> 8), byte(n)}, make([]byte, 64)...)...)
				}
				frames = append(frames, flood)
			}
		}
		st := e.pass(0, frames)
		if got := e.whole(1); len(got) != 1 {
			t.Errorf("%v: the datagram did not arrive: drops %v", s, drops(st))
		}
		if d := st.Ports[0].Drops[batch.FragmentsMissing]; d != uint64(n) {
			t.Errorf("%v: %d fragments given up, want %d: %v", s, d, n, drops(st))
		}
	}
}

func TestInconsistentFragmentsAreDropped(t *testing.T) {
	for _, s := range []shape{shapes[0], shapes[4]} {
		for name, lie := range map[string]func([][]byte) [][]byte{
			"overlap": func(f [][]byte) [][]byte {
				return append([][]byte{f[0], testutil.Edit(f[1], 7, f[1][21]-1)}, f[1:]...)
			},
			"longer": func(f [][]byte) [][]byte {
				return append([][]byte{testutil.Edit(f[len(f)-1], 6, 0x0f, 0xff)}, f...)
			},
			"shorter": func(f [][]byte) [][]byte {
				return append([][]byte{f[0], f[1], testutil.Edit(f[len(f)-1], 6, 0, 1)}, f[2:]...)
			},
		} {
			e := newESP(t, s)
			frames := lie(cut(t, e.seal(e.datagram(9000, false)), 1))
			e.queues[0].Play(frames, len(frames))
			e.start()
			e.wait("all fragments", func(st *dataplane.Stats) bool { return e.settled(st, len(frames)) })
			time.Sleep(5 * time.Millisecond)
			st := e.stop()
			if d := st.Ports[0].Drops; st.Ports[1].TxPackets != 0 || d[batch.FragmentOverlap] == 0 || d[batch.FragmentOverlap]+d[batch.FragmentsMissing] != uint64(len(frames)) {
				t.Errorf("%v, %s: %d packets left, drops %v", s, name, st.Ports[1].TxPackets, drops(st))
			}
		}
	}
}
