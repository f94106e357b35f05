package dataplane_test

import (
	"testing"
	"time"

	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/require"
)

// Settings change without packet loss, with packets in flight and pending.
func TestSettingsChangeUnderLoad(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[0], 0, 0)
	r.queues[1].Play(numbered(32, "10.0.0.1"), 32) // a destination's share
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.start()
	r.wait("32 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 32 })
	for i := range 100 {
		packets := []int{1, 7, 1024, 64}[i%4]
		require.NoError(t, r.router.Set(dataplane.Settings{MaxPackets: packets, MaxDelay: time.Duration(i) * time.Microsecond, Spin: time.Duration(i%2) * time.Millisecond}))
		r.fib.Commit() // the 32 are tried again, also in chunks of fewer
	}
	sent := r.router.Stats().Ports[1].TxPackets
	r.wait("more packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets > sent+1000 })
	for _, n := range []int{0, 1025} {
		if err := r.router.Set(dataplane.Settings{MaxPackets: n}); err == nil {
			t.Errorf("chunks of %d packets are no error", n)
		}
	}
	r.fib.SetAdjacency(r.adj[0], 0, 0x0200000000bb)
	r.fib.Commit()
	r.wait("the 32", func(s *dataplane.Stats) bool { return s.Ports[0].TxPackets == 32 })
	r.queues[0].Pause()
	s := r.stop()
	if n := s.Ports[0].Dropped() + s.Ports[1].Dropped(); n != 0 {
		t.Errorf("%d packets dropped", n)
	}
	if err := r.router.Set(dataplane.Settings{MaxPackets: 1}); err != nil { // no worker runs
		t.Errorf("after the end: %v", err)
	}
}

func TestSettingsApplyToTheNextChunk(t *testing.T) {
	r := newRig(t, 1024)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.start()
	require.NoError(t, r.router.Set(dataplane.Settings{MaxPackets: 8, MaxDelay: time.Millisecond}))
	before := r.router.Stats()
	r.wait("chunks", func(s *dataplane.Stats) bool { return s.Chunks > before.Chunks+1000 })
	after := r.router.Stats()
	r.queues[0].Pause()
	r.stop()
	if mean := float64(after.Packets.Sum-before.Packets.Sum) / float64(after.Packets.Count-before.Packets.Count); mean > 8.5 {
		t.Errorf("chunks of %.1f packets on average, want 8 at most", mean)
	}
}
