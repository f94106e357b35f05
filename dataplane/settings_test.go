package dataplane_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
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

// A worker has as many full chunks in flight as the settings permit, which apply to a running router.
func TestChunksInFlightAreLimited(t *testing.T) {
	r := newRig(t, 16)
	r.config.MaxInFlight, r.config.Workers[0].Engine = 2, &late{Engine: r.engine, every: 1 << 60}
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.start()
	inFlight := func(n int64) {
		r.wait(fmt.Sprintf("%d chunks in flight", n), func(s *dataplane.Stats) bool { return s.InFlight == n })
		time.Sleep(20 * time.Millisecond)
		if got := r.router.Stats().InFlight; got != n {
			t.Errorf("%d chunks in flight, want %d", got, n)
		}
	}
	inFlight(2)
	require.NoError(t, r.router.Set(dataplane.Settings{MaxPackets: 16, MaxInFlight: 3}))
	inFlight(3)
	require.NoError(t, r.router.Set(dataplane.Settings{MaxPackets: 16}))
	inFlight(4) // all that there are
	r.queues[0].Pause()
	r.stop()
}

// Chunks of few packets leave the packets that wait for their neighbors their places: as many per destination as in Linux.
func TestShortChunksKeepThePlacesOfWaitingPackets(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[0], 0, 0)
	r.config.MaxPackets = 8
	r.queues[1].Play(numbered(101, "10.0.0.1"), 101)
	r.start()
	r.wait("101 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 101 })
	r.fib.SetAdjacency(r.adj[0], 0, 0x0200000000bb)
	r.fib.Commit()
	r.wait("their transmission", func(s *dataplane.Stats) bool { return s.Ports[0].TxPackets == 101 })
	if s := r.stop(); s.Ports[1].Dropped() != 0 {
		t.Errorf("%d packets dropped", s.Ports[1].Dropped())
	}
}

// Packets that wait for a neighbor do not keep other ones out of the chunks in which they are tried again, though they are more than
// a chunk has otherwise, and longer: neither received packets nor those of the slow path.
func TestWaitingPacketsLeaveRoomInShortChunks(t *testing.T) {
	const limit, destinations, share = 16, 5, 101
	long := make([]byte, 1100)
	for name, x := range map[string]struct {
		waiting, payload []byte // of packets
		maxBytes         int
		least            float64 // packets that a chunk transmits on average
	}{
		"received":                            {nil, nil, 0, limit / 4},
		"received, limited in bytes":          {long, nil, 16 << 10, limit / 4},
		"received, fewer bytes than a packet": {nil, nil, 50, 0.5},
		"of the slow path: fragments":         {nil, make([]byte, 1650), 0, limit / 4},
	} {
		r := newRig(t, 1024)
		r.fib.SetAdjacency(r.adj[0], 0, 0)
		r.config.MaxPackets, r.config.MaxBytes = limit, x.maxBytes
		var waiting [][]byte
		for i := range destinations * share {
			waiting = append(waiting, testutil.UDP4("192.0.2.1", fmt.Sprintf("10.0.0.%d", i/share+1), 1, 2, x.waiting...))
		}
		r.queues[1].Play(waiting, len(waiting))
		r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, x.payload...)}, -1)
		r.start()
		r.wait("waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == int64(len(waiting)) })
		changing, end := sync.WaitGroup{}, make(chan struct{})
		changing.Go(func() { // so that they are tried again in nearly every chunk
			for {
				select {
				case <-end:
					return
				default:
					r.fib.MarkChanged()
				}
			}
		})
		before := r.router.Stats()
		r.wait("chunks", func(s *dataplane.Stats) bool { return s.Chunks > before.Chunks+2000 })
		after := r.router.Stats()
		close(end)
		changing.Wait()
		r.queues[0].Pause()
		r.stop()
		if n, chunks := after.Ports[1].TxPackets-before.Ports[1].TxPackets, after.Chunks-before.Chunks; float64(n) < float64(chunks)*x.least {
			t.Errorf("%s: %d packets transmitted by %d chunks, want %v at least by each", name, n, chunks, x.least)
		}
	}
}

// Packets of the host find places beside a flood of packets that the slow path fragments.
func TestHostPacketsPassBesideFragments(t *testing.T) {
	for _, limit := range []int{16, 256} {
		r, h := newRig(t, 1024), &host{}
		r.config.MaxPackets, r.config.Workers[0].Host = limit, h
		for range 2000 {
			h.sends = append(h.sends, testutil.UDP4("192.0.2.9", "10.1.0.2", 1, 2)[14:])
		}
		r.queues[0].Play([][]byte{testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2, make([]byte, 1650)...)}, -1)
		r.start()
		r.wait("chunks", func(s *dataplane.Stats) bool { return s.Chunks > 3000 })
		h.mu.Lock()
		left := len(h.sends)
		h.mu.Unlock()
		r.queues[0].Pause()
		r.stop()
		if left > 0 {
			t.Errorf("%d of 2000 packets of the host are left after 3000 chunks of up to %d packets", left, limit)
		}
	}
}
