package dataplane_test

import (
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
)

// pressing is an engine that is not ready while it has a chunk of the lane.
type pressing struct {
	*async
	last  int // lane
	asked [batch.MaxLanes]int
}

func (p *pressing) Ready(lane uint8) bool {
	p.asked[lane]++
	return len(p.lanes[lane]) == 0
}

func (p *pressing) Submit(c *batch.Chunk) {
	if int(c.Lane) == p.last && len(p.lanes[c.Lane]) > 0 {
		p.t.Errorf("a chunk of lane %d is submitted to an engine that is not ready", c.Lane)
	}
	p.async.Submit(c)
}

// TestWorkersWaitForTheEngine: chunks of the last lane wait until the engine is ready, those before it do not. No packet
// is lost by that while it fits the queues.
func TestWorkersWaitForTheEngine(t *testing.T) {
	const packets = 1500
	for lanes := 1; lanes <= 3; lanes++ {
		r := newRig(t, 32)
		if lanes > 1 {
			r.useLanes(byDSCP(t, lanes, time.Second))
		}
		engine := &pressing{async: newAsync(t, r.engine), last: lanes - 1}
		r.config.Workers[0].Engine = engine
		var frames [][]byte
		for i := range packets {
			frames = append(frames, inLane(uint16(i%3), []byte{0, 26, 46}[i%3], uint32(i)))
		}
		r.queues[0].Play(frames, packets)
		s := r.run("all packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets+s.Ports[0].Dropped() == packets })
		if s.Ports[0].Dropped() != s.Ports[0].Drops[batch.LaneFull] || lanes == 1 && s.Ports[0].Dropped() > 0 {
			t.Errorf("%d lanes: drops %v", lanes, drops(s))
		}
		for lane, n := range engine.asked[:lanes] {
			if asked := n > 0; asked != (lane == engine.last) {
				t.Errorf("lane %d of %d: asked %d times", lane, lanes, n)
			}
		}
	}
}
