package dataplane_test

import (
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
)

// late is an engine that reports chunks as done late: in one of every calls of Done.
type late struct {
	dataplane.Engine
	every, calls int
}

func (l *late) Done(c *batch.Chunk) bool {
	l.calls++
	return l.calls%l.every == 0 && l.Engine.Done(c)
}

func TestChunksInFlightAreNotReordered(t *testing.T) {
	r := newRig(t, 16)
	r.config.Workers[0].Engine = &late{Engine: r.engine, every: 5}
	r.queues[0].Play(numbered(4000, "10.1.0.1"), 4000)
	r.run("4000 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 4000 })
	r.checkOrder()
}

// pipe is an engine that is done with a chunk only when it has the next.
type pipe struct {
	dataplane.Engine
	last *batch.Chunk
}

func (p *pipe) Submit(c *batch.Chunk)    { p.Engine.Submit(c); p.last = c }
func (p *pipe) Done(c *batch.Chunk) bool { return c != p.last }

// An engine that always has a chunk does not keep next hops from being freed, or the router from
// stopping.
func TestBusyEngineFreesNextHops(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &pipe{Engine: r.engine}
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.queues[1].Collect(nil)
	r.start()
	paths := []fib.Path{{Adjacency: r.adj[0], Weight: 1}, {Adjacency: r.adj[1], Weight: 1}}
	for i := range fib.MaxGroups + 1000 {
		id, err := r.fib.NewNextHop(fib.KindForward, paths...)
		if err != nil {
			t.Fatalf("group %d: %v", i, err)
		}
		r.fib.FreeNextHop(id)
		if i%1000 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	start := time.Now()
	r.router.Stop()
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("stopping took %v", d)
	}
	r.stop()
}

// Packets of an engine that finishes no chunk count as dropped.
func TestStopWithDeadEngine(t *testing.T) {
	r := newRig(t, 64)
	r.config.Workers[0].Engine = &late{Engine: r.engine, every: 1 << 60}
	r.queues[0].Play(numbered(1000, "10.1.0.1"), 100)
	s := r.run("100 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 100 })
	if s.Ports[0].Drops[batch.Stopping] != 100 {
		t.Errorf("drops: %v", s.Ports[0].Drops)
	}
}

// firstOnly is an engine that decides on its first chunk only; invalid returns invalid verdicts.
type (
	firstOnly struct {
		dataplane.Engine
		chunks int
		first  uint64 // packets of the first chunk
	}
	invalid struct{ dataplane.Engine }
)

func (l *firstOnly) Submit(c *batch.Chunk) {
	if l.chunks++; l.chunks == 1 {
		l.first = uint64(c.N)
		l.Engine.Submit(c)
	}
}

func (m *invalid) Submit(c *batch.Chunk) {
	for i := range c.Out[:c.N] {
		c.Out[i] = batch.Result{Verdict: batch.Verdict(0xffff - 0x0fff*(i%16) - i)}
	}
}

func TestInvalidVerdictsAreDropped(t *testing.T) {
	first := &firstOnly{}
	for name, c := range map[string]struct {
		engine func(dataplane.Engine) dataplane.Engine
		sent   func() uint64
	}{
		"first chunk only": {
			func(e dataplane.Engine) dataplane.Engine { first.Engine = e; return first },
			func() uint64 { return first.first }, // how much the worker had received by then
		},
		"invalid": {
			func(e dataplane.Engine) dataplane.Engine { return &invalid{e} },
			func() uint64 { return 0 },
		},
	} {
		r := newRig(t, 64)
		r.config.Workers[0].Engine = c.engine(r.engine)
		r.queues[0].Play(numbered(640, "10.1.0.1"), 640)
		s := r.run("640 packets", func(s *dataplane.Stats) bool { return s.Ports[0].RxPackets == 640 })
		sent, drops := c.sent(), s.Ports[0].Drops
		if name == "first chunk only" && (sent == 0 || sent > 64 || drops[batch.Unprocessed] != 640-sent) || s.Ports[1].TxPackets != sent {
			t.Errorf("%s: %d sent of %d, drops %v", name, s.Ports[1].TxPackets, sent, drops)
		}
	}
}
