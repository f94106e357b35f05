package dataplane_test

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

func TestPacketsWaitForUnresolvedNeighbor(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	r.queues[0].Play(numbered(20, "10.1.0.1"), 20)
	r.start()
	r.wait("20 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 20 })
	r.fib.SetAdjacency(r.adj[1], 1, 0x0200000000bb)
	r.fib.Commit()
	r.wait("20 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 20 })
	r.stop()
	for i, f := range r.out[1] {
		if number(f) != i || f[5] != 0xbb || f[22] != 63 {
			t.Fatalf("packet %d leaves as % x", i, f)
		}
	}
	if len(r.asks) == 0 || r.asks[0] != netip.MustParseAddr("10.1.0.1") {
		t.Errorf("asked for %v", r.asks)
	}
}

func TestPendingPacketsExpire(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	r.queues[0].Play(numbered(5, "10.1.0.1"), 5)
	start := time.Now()
	r.start()
	r.wait("5 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.NeighborUnresolved] == 5 })
	if d := time.Since(start); d < 2500*time.Millisecond || d > 4500*time.Millisecond {
		t.Errorf("dropped after %v, want about 3 s", d)
	}
	r.stop()
	if len(r.asks) < 5+5 {
		t.Errorf("asked %d times in 3 s, want again at every retry", len(r.asks))
	}
}

// The share is Linux's, neigh/default/unres_qlen. Retries do not add to it.
func TestPendingShareOfADestinationIsLimited(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.start()
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		r.fib.Commit()
		if waiting := r.router.Stats().Waiting; waiting > 101 {
			t.Fatalf("%d packets to one host wait", waiting)
		}
	}
	r.queues[0].Pause()
	if s := r.stop(); s.Ports[0].Drops[batch.NeighborQueueFull] == 0 || s.Ports[0].Drops[batch.Stopping] != 101 {
		t.Errorf("drops: %v", s.Ports[0].Drops)
	}
}

// The order holds across retries that forward only some packets.
func TestPendingPacketsStayInOrder(t *testing.T) {
	r := newRig(t, 1024)
	other, _ := r.fib.NewAdjacency(1)
	id, _ := r.fib.NewNextHop(fib.KindForward, fib.Path{Adjacency: other, Weight: 1})
	require.NoError(t, r.fib.IPv4.Insert(netip.MustParsePrefix("10.1.0.2/32"), id))
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	var frames [][]byte
	for i, f := range numbered(20, "10.1.0.1") {
		frames = append(frames, f, numbered(20, "10.1.0.2")[i])
	}
	r.queues[0].Play(frames, len(frames))
	r.start()
	r.wait("40 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 40 })
	for _, adj := range []uint32{other, r.adj[1]} {
		var before uint64
		r.wait("a try to be over", func(s *dataplane.Stats) bool { // in the midst of one, some would go and some wait on
			if before == 0 {
				before = s.Chunks
			}
			return s.Chunks > before
		})
		r.fib.SetAdjacency(adj, 1, 0x0200000000bb)
		r.fib.Commit()
		sent := 20
		if adj != other {
			sent = 40
		}
		r.wait("20 more", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == uint64(sent) })
	}
	r.stop()
	for i, f := range r.out[1] {
		if number(f) != i%20 || f[33] != byte(2-i/20) {
			t.Fatalf("packet %d leaves as number %d to 10.1.0.%d", i, number(f), f[33])
		}
	}
}

func TestScanIsLimitedToThePendingQueue(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	var scan [][]byte
	for i := range 2000 {
		scan = append(scan, testutil.UDP4("192.0.2.1", fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), 1, 2))
	}
	r.queues[0].Play(scan, len(scan))
	r.queues[1].Play(numbered(3000, "10.0.0.1"), 3000)
	r.start()
	r.wait("the other port's packets", func(s *dataplane.Stats) bool { return s.Ports[0].TxPackets == 3000 })
	r.wait("512 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 512 })
	if s := r.stop(); s.Ports[0].Drops[batch.NeighborQueueFull] != 2000-512 {
		t.Errorf("neighbor_queue_full %d", s.Ports[0].Drops[batch.NeighborQueueFull])
	}
}

func TestScanEvictsOldPendingPackets(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	var scan [][]byte
	for i := range 5000 {
		scan = append(scan, testutil.UDP4("192.0.2.1", fmt.Sprintf("10.1.%d.%d", i/250, i%250+1), 1, 2))
	}
	r.queues[0].Play(scan, -1)
	r.start()
	r.wait("requests for three times as many hosts as fit the queue", func(s *dataplane.Stats) bool {
		if s.Waiting > 512 {
			t.Fatalf("%d packets wait", s.Waiting)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		hosts := map[netip.Addr]bool{}
		for _, a := range r.asks {
			hosts[a] = true
		}
		return len(hosts) >= 3*512
	})
	r.queues[0].Pause()
	if s := r.stop(); s.Ports[0].Drops[batch.NeighborUnresolved] != 0 {
		t.Errorf("%d packets were given up meanwhile", s.Ports[0].Drops[batch.NeighborUnresolved])
	}
}

// early is an engine without SAs until known is set.
type early struct {
	dataplane.Engine
	known atomic.Bool
}

func (e *early) Submit(c *batch.Chunk) {
	if e.known.Load() {
		e.Engine.Submit(c)
		return
	}
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.DropFor(batch.XfrmInNoStates)
	}
}

func TestESPWaitsForSA(t *testing.T) {
	r := newRig(t, 1024)
	e := &early{Engine: r.engine}
	r.config.Workers[0].Engine = e
	r.queues[0].Play(numbered(20, "10.1.0.1"), 20)
	r.start()
	r.wait("20 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 20 })
	e.known.Store(true)
	r.fib.MarkChanged()
	r.wait("20 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 20 })
	r.stop()
	r.checkOrder()
}

func TestESPWaitsForSAThenNeighbor(t *testing.T) {
	r := newRig(t, 1024)
	r.fib.SetAdjacency(r.adj[1], 1, 0)
	e := &early{Engine: r.engine}
	r.config.Workers[0].Engine = e
	r.queues[0].Play(numbered(20, "10.1.0.1"), 20)
	r.start()
	r.wait("20 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 20 })
	e.known.Store(true)
	r.fib.MarkChanged()
	time.Sleep(100 * time.Millisecond) // longer than for associations
	if waiting := r.router.Stats().Waiting; waiting != 20 {
		t.Errorf("%d packets wait for their neighbour", waiting)
	}
	r.fib.SetAdjacency(r.adj[1], 1, 0x0200000000bb)
	r.fib.Commit()
	r.wait("20 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 20 })
	r.stop()
	if len(r.asks) == 0 || r.asks[0] != netip.MustParseAddr("10.1.0.1") {
		t.Errorf("asked for %v", r.asks)
	}
}

// ESP without an SA has a short timeout and a limited share.
func TestESPWithoutSAExpires(t *testing.T) {
	r := newRig(t, 1024)
	r.config.Workers[0].Engine = &early{Engine: r.engine}
	r.queues[0].Play(numbered(1000, "10.1.0.1"), 1000)
	start := time.Now()
	r.start()
	// All but 64, the share of ESP without SAs.
	r.wait("936 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.XfrmInNoStates] >= 1000-64 })
	if n := r.router.Stats().Ports[0].Drops[batch.XfrmInNoStates]; n != 1000-64 && time.Since(start) < 50*time.Millisecond {
		t.Errorf("%d packets were dropped at once, want 936", n)
	}
	r.wait("all drops", func(s *dataplane.Stats) bool { return s.Ports[0].Drops[batch.XfrmInNoStates] == 1000 })
	if waiting := r.router.Stats().Waiting; waiting != 0 {
		t.Errorf("%d packets wait when all are dropped", waiting)
	}
	if d := time.Since(start); d < 50*time.Millisecond || d > time.Second {
		t.Errorf("dropped after %v, want 50 ms", d)
	}
	r.stop()
}
