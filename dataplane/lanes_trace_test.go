package dataplane_test

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/packet/filter"
)

// Traces follow packets through the queues of their lanes: to the chunk that they enter later, or to the drop
// before they are in one.
func TestTracesFollowPacketsThroughLanes(t *testing.T) {
	r := newRig(t, 16)
	r.useLanes(byDSCP(t, 2, 0))
	engine := newAsync(t, r.engine)
	engine.never = func(c *batch.Chunk) bool { return c.Lane == 1 }
	r.config.Workers[0].Engine = engine
	var frames [][]byte
	for i := range 3000 { // the queue of the last lane overflows, and with it the flow 2; then one packet of the first
		frames = append(frames, inLane(uint16(1+i/2990), 0, uint32(i)))
	}
	r.queues[0].Play(append(frames, inLane(7, 46, 3000)), 3001)
	var c *dataplane.Capture
	r.configure(func() {
		traced, err := filter.Parse("src port 1002 or src port 1007")
		require.NoError(t, err)
		cfg := dataplane.CaptureConfig{Filter: traced, Snap: 100, Room: 4000}
		cfg.Points[dataplane.Decided] = true
		c = r.router.StartCapture(cfg)
	})
	r.wait("the packet of the first lane", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 1 })
	dropped, forwarded := 0, 0
	c.Read(func(rec *dataplane.Record) bool {
		switch d := &rec.Decision; {
		case d.Dropped && d.Reason == batch.LaneFull && d.Packets == 0 && d.Received > 0 && d.Sent == 0:
			dropped++
		case !d.Dropped && d.Result.Verdict == batch.Forward(1) && d.Packets == 1 && number(rec.Data) == 3000 && d.Sent > 0:
			forwarded++
		default:
			t.Errorf("packet %d: %+v", number(rec.Data), d)
		}
		return true
	})
	if s := r.stop(); dropped != 10 || forwarded != 1 || s.Ports[0].Drops[batch.LaneFull] < 10 {
		t.Errorf("%d of 10 traces of dropped packets, %d of 1 of the forwarded one, drops %v", dropped, forwarded, drops(s))
	}
}
