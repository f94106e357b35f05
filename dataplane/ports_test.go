package dataplane_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/memport"
)

// jammed is a queue whose transmit ring the port does not empty.
type jammed struct {
	*memport.Queue
	pool interface{ Put(uint32) }
	held []batch.Frame
	room int
}

func (q *jammed) Transmit(src []batch.Frame) int {
	n := min(len(src), q.room-len(q.held))
	q.held = append(q.held, src[:n]...)
	return n
}

func (q *jammed) Reclaim() int { return len(q.held) }

func (q *jammed) Release() (packets, bytes uint64) {
	for _, f := range q.held {
		q.pool.Put(f.Addr)
		packets, bytes = packets+1, bytes+uint64(f.Len)
	}
	q.held = nil
	_, _ = q.Queue.Release()
	return packets, bytes
}

// newSlots returns a rig with room for more ports, and a route of 10.2.0.0/16 to number 2.
func newSlots(t *testing.T, ports int) (*rig, uint32) {
	r := newRig(t, 256)
	r.config.Ports = ports
	r.config.Workers[0].Queues = append(r.config.Workers[0].Queues, make([][]dataplane.Queue, ports-2)...)
	adj, err := r.fib.NewAdjacency(2)
	require.NoError(t, err)
	r.fib.SetAdjacency(adj, 2, 0x0200000000aa)
	r.routeTo(r.hop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1}), "10.2.0.0/16")
	return r, adj
}

// conserved fails unless every packet that was received has left, was dropped, or is of a removed port's account.
func conserved(t *testing.T, s *dataplane.Stats) {
	t.Helper()
	rx, tx, dropped := s.Removed.RxPackets, s.Removed.TxPackets, s.Removed.Dropped()
	for i := range s.Ports {
		rx, tx, dropped = rx+s.Ports[i].RxPackets, tx+s.Ports[i].TxPackets, dropped+s.Ports[i].Dropped()
	}
	if rx != tx+dropped {
		t.Errorf("%d packets received, %d sent, %d dropped", rx, tx, dropped)
	}
}

// While packets pass between ports 0 and 1, port 2 is opened, used in both directions, and closed, again and again. No
// packet between 0 and 1 is lost or overtaken, and none of port 2 is uncounted.
func TestPortsComeAndGo(t *testing.T) {
	r, _ := newSlots(t, 4)
	gaps, next := 0, 0
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.queues[1].Collect(func(f []byte) {
		if f[33] != 1 { // of port 2
			return
		}
		if number(f) != next {
			gaps++
		}
		next = (number(f) + 1) % 1000
	})
	r.start()
	for round := range 100 {
		q := memport.New(2, r.mem, r.pool)
		q.Play([][]byte{other(t)}, 500)
		require.NoError(t, r.router.OpenPort(2, [][]dataplane.Queue{{q}}))
		r.fib.SetPort(2, 0x020000000002, 1500)
		r.wait("packets of port 2", func(s *dataplane.Stats) bool { return s.Ports[2].RxPackets == 500 })
		r.fib.SetPort(2, 0x020000000002, 0)
		require.NoError(t, r.router.ClosePort(2, time.Second))
		if s := r.router.Stats(); s.Ports[2].RxPackets != 0 || s.Removed.RxPackets != uint64(500*(round+1)) {
			t.Fatalf("round %d: the closed port has %d packets, removed ports %d", round, s.Ports[2].RxPackets, s.Removed.RxPackets)
		}
	}
	r.queues[0].Pause()
	time.Sleep(20 * time.Millisecond)
	s := r.stopped()
	if gaps > 0 || s.Ports[0].RxPackets < 1000 {
		t.Errorf("%d gaps in %d packets between the other ports", gaps, s.Ports[0].RxPackets)
	}
	conserved(t, s)
}

// other returns a packet that port 2 receives for port 1.
func other(t *testing.T) []byte {
	t.Helper()
	return numbered(1, "10.1.0.2")[0]
}

// stopped stops the router and checks that all frames are in the pool or in the queues of ports 0 and 1.
func (r *rig) stopped() *dataplane.Stats {
	r.t.Helper()
	r.router.Stop()
	if frames := r.pool.Len() + r.queues[0].Held() + r.queues[1].Held(); frames != r.mem.Frames() {
		r.t.Errorf("%d of %d frames left", frames, r.mem.Frames())
	}
	return r.router.Stats()
}

// Packets that the removed port never sends are counted as dropped by it, not as transmitted.
func TestTransmitRingOfARemovedPortIsCounted(t *testing.T) {
	r, _ := newSlots(t, 3)
	q := &jammed{Queue: memport.New(2, r.mem, r.pool), pool: r.pool, room: 40}
	r.fib.SetPort(2, 0x020000000002, 1500)
	r.config.Workers[0].Queues[2] = []dataplane.Queue{q}
	r.queues[0].Play(numbered(100, "10.2.0.1"), 100)
	r.start()
	r.wait("packets to be held", func(s *dataplane.Stats) bool { return s.Ports[2].TxPackets == 40 })
	r.fib.SetPort(2, 0x020000000002, 0)
	begin := time.Now()
	require.NoError(t, r.router.ClosePort(2, 50*time.Millisecond))
	if d := time.Since(begin); d < 50*time.Millisecond || d > 10*time.Second {
		t.Errorf("closed after %v, with packets that are not sent", d)
	}
	s := r.stopped()
	if s.Removed.TxPackets != 0 || s.Removed.TxBytes != 0 || s.Removed.Drops[batch.PortDown] != 40 {
		t.Errorf("removed ports: %+v", s.Removed)
	}
	if s.Ports[0].Drops[batch.TxFull] != 60 {
		t.Errorf("%d packets found the ring full, want 60", s.Ports[0].Drops[batch.TxFull])
	}
	conserved(t, s)
}

// delayed is an engine that decides at once, and reports it when it is released.
type delayed struct {
	dataplane.Engine
	hold atomic.Bool
}

func (e *delayed) Done(c *batch.Chunk) bool { return !e.hold.Load() && e.Engine.Done(c) }

// A chunk in flight names a port that is removed before the chunk is complete.
func TestChunkInFlightOutlivesItsPort(t *testing.T) {
	r, _ := newSlots(t, 3)
	e := &delayed{Engine: r.engine}
	e.hold.Store(true)
	r.config.Workers[0].Engine = e
	q := memport.New(2, r.mem, r.pool)
	sent := 0
	q.Collect(func([]byte) { sent++ })
	r.config.Workers[0].Queues[2] = []dataplane.Queue{q}
	r.fib.SetPort(2, 0x020000000002, 1500)
	r.queues[0].Play(numbered(100, "10.2.0.1"), 100)
	r.start()
	r.wait("packets in flight", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 100 && s.InFlight > 0 })
	r.fib.SetPort(2, 0x020000000002, 0)
	require.NoError(t, r.router.ClosePort(2, 20*time.Millisecond))
	e.hold.Store(false)
	r.wait("the end of the chunks", func(s *dataplane.Stats) bool { return s.InFlight == 0 })
	s := r.stopped()
	if s.Ports[0].Drops[batch.PortDown] != 100 || sent != 0 {
		t.Errorf("%d dropped, %d sent by the removed port", s.Ports[0].Drops[batch.PortDown], sent)
	}
	conserved(t, s)
}

// Received packets that no worker has seen are processed before the port is closed.
func TestReceivedPacketsOfARemovedPortAreProcessed(t *testing.T) {
	r, _ := newSlots(t, 3)
	q := memport.New(2, r.mem, r.pool)
	q.Play([][]byte{other(t)}, 2000)
	r.start()
	r.fib.SetPort(2, 0x020000000002, 1500)
	require.NoError(t, r.router.OpenPort(2, [][]dataplane.Queue{{q}}))
	time.Sleep(60 * time.Millisecond) // the idle worker has slept
	require.NoError(t, r.router.ClosePort(2, time.Second))
	s := r.stopped()
	if s.Removed.RxPackets != 2000 || s.Ports[1].TxPackets != 2000 {
		t.Errorf("%d received, %d sent of 2000", s.Removed.RxPackets, s.Ports[1].TxPackets)
	}
}

func TestOpenPortRefuses(t *testing.T) {
	r, _ := newSlots(t, 3)
	r.start()
	queue := func(port uint16) [][]dataplane.Queue {
		return [][]dataplane.Queue{{memport.New(port, r.mem, r.pool)}}
	}
	for _, c := range []struct {
		port   int
		queues [][]dataplane.Queue
		want   string
	}{
		{1, queue(1), "has a port"},
		{3, queue(3), "0 to 2"},
		{-1, queue(0), "0 to 2"},
		{2, nil, "queues of 0 workers"},
		{2, [][]dataplane.Queue{{}}, "worker 0 has no queue"},
	} {
		if err := r.router.OpenPort(c.port, c.queues); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("port %d: %v, want %q", c.port, err, c.want)
		}
	}
	for _, port := range []int{-1, 2, 3} {
		if err := r.router.ClosePort(port, 0); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d", port)) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	r.stop()
}

// A router without ports waits for the first, and can lose its last.
func TestRouterWithoutPorts(t *testing.T) {
	r, _ := newSlots(t, 3)
	r.config.Workers[0].Queues = make([][]dataplane.Queue, 3)
	r.start()
	for range 3 {
		q := memport.New(0, r.mem, r.pool)
		q.Play(numbered(10, "10.0.0.1"), 10)
		require.NoError(t, r.router.OpenPort(0, [][]dataplane.Queue{{q}}))
		r.wait("packets", func(s *dataplane.Stats) bool { return s.Ports[0].TxPackets == 10 })
		require.NoError(t, r.router.ClosePort(0, time.Second))
	}
	if s := r.stopped(); s.Removed.TxPackets != 30 {
		t.Errorf("%d packets sent", s.Removed.TxPackets)
	}
}
