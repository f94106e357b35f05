package dataplane_test

import (
	"bytes"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet/filter"
)

// everything returns a capture of all packets at some points.
func everything(room int, points ...dataplane.Point) dataplane.CaptureConfig {
	c := dataplane.CaptureConfig{Filter: &filter.Filter{}, Snap: 2048, Room: room}
	for _, p := range points {
		c.Points[p] = true
	}
	for r := range c.Reasons {
		c.Reasons[r] = true
	}
	return c
}

// startWith starts the router with captures.
func (r *rig) startWith(cfgs ...dataplane.CaptureConfig) (captures []*dataplane.Capture) {
	r.t.Helper()
	router, err := dataplane.New(r.config)
	require.NoError(r.t, err)
	for _, c := range cfgs {
		captures = append(captures, router.StartCapture(c))
	}
	require.NoError(r.t, router.Start())
	r.router = router
	return captures
}

// records returns copies of the records of a capture.
func records(t *dataplane.Capture) (all []dataplane.Record) {
	t.Read(func(r *dataplane.Record) bool {
		c := *r
		c.Data, c.Decision.After = bytes.Clone(r.Data), bytes.Clone(r.Decision.After)
		all = append(all, c)
		return true
	})
	return all
}

func TestCaptureRecordsAllPoints(t *testing.T) {
	r := newRig(t, 64)
	noRoute := testutil.UDP4("192.0.2.1", "172.16.0.1", 1, 2)
	frames := append(numbered(100, "10.1.0.1"), noRoute, noRoute[:20])
	r.queues[0].Play(frames, len(frames))
	capture := r.startWith(everything(1000, dataplane.Received, dataplane.Sent, dataplane.Dropped))[0]
	r.wait("all", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 100 && s.Ports[0].Dropped() == 2 })
	r.stop()

	var rx, tx, dropped []dataplane.Record
	last := records(capture)
	for i, rec := range last {
		if i > 0 && rec.Time < last[i-1].Time {
			t.Errorf("record %d is older than the one before", i)
		}
		switch rec.Point {
		case dataplane.Received:
			rx = append(rx, rec)
		case dataplane.Sent:
			tx = append(tx, rec)
		case dataplane.Dropped:
			dropped = append(dropped, rec)
		}
	}
	if len(rx) != len(frames) || len(tx) != 100 || len(dropped) != 2 {
		t.Fatalf("%d received, %d sent, %d dropped", len(rx), len(tx), len(dropped))
	}
	for i, rec := range rx {
		if !bytes.Equal(rec.Data, frames[i]) || rec.Port != 0 {
			t.Fatalf("received %d: % x on port %d, want % x", i, rec.Data, rec.Port, frames[i])
		}
	}
	for i, rec := range tx {
		if !bytes.Equal(rec.Data, r.out[1][i]) || rec.Port != 1 || rec.Ingress != 0 {
			t.Fatalf("sent %d: % x on port %d from %d, want % x", i, rec.Data, rec.Port, rec.Ingress, r.out[1][i])
		}
	}
	if d := dropped[0]; d.Reason != batch.NoRoute || !bytes.Equal(d.Data, noRoute) {
		t.Errorf("dropped as %v: % x", d.Reason, d.Data)
	}
	if d := dropped[1]; d.Reason != batch.TooShort || !bytes.Equal(d.Data, noRoute[:20]) || d.Port != 0 {
		t.Errorf("dropped as %v: % x", d.Reason, d.Data)
	}
	if captured, missed := capture.Counts(0); captured != uint64(len(frames))+2 || missed != 0 {
		t.Errorf("port 0: %d captured, %d missed", captured, missed)
	}
}

func TestCaptureAppliesItsFilters(t *testing.T) {
	r := newRig(t, 64)
	odd, err := filter.Parse("dst host 10.1.0.1")
	require.NoError(t, err)
	r.queues[0].Play(append(numbered(10, "10.1.0.1"), append(numbered(10, "10.1.0.2"), numbered(5, "172.16.0.1")...)...), 25)
	byFilter, short, byPort, byReason := everything(100, dataplane.Received), everything(100, dataplane.Received), everything(100, dataplane.Received, dataplane.Sent), everything(100, dataplane.Dropped)
	byFilter.Filter, short.Snap, byPort.Ports, byReason.Reasons[batch.NoRoute] = odd, 20, []bool{false, true}, false
	captures := r.startWith(byFilter, short, byPort, byReason)
	r.wait("all", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 20 && s.Ports[0].Dropped() == 5 })
	r.stop()
	if got := records(captures[0]); len(got) != 10 {
		t.Errorf("%d match the filter, want 10", len(got))
	}
	for _, rec := range records(captures[1]) {
		if len(rec.Data) != 20 || rec.Len != 60 && rec.Len != 46 {
			t.Fatalf("%d bytes of %d kept, want 20", len(rec.Data), rec.Len)
		}
	}
	for _, rec := range records(captures[2]) {
		if rec.Port != 1 {
			t.Errorf("%d on port %d", rec.Point, rec.Port)
		}
	}
	if got := records(captures[3]); len(got) != 0 {
		t.Errorf("%d drops of a reason that was not asked for", len(got))
	}
}

func TestUnreadCaptureCountsMissedPackets(t *testing.T) {
	r := newRig(t, 64)
	r.queues[0].Play(numbered(5000, "10.1.0.1"), 5000)
	capture := r.startWith(everything(16, dataplane.Received))[0]
	r.wait("5000 packets", func(s *dataplane.Stats) bool { return s.Ports[1].TxPackets == 5000 })
	r.stop()
	if captured, missed := capture.Counts(0); captured != 16 || missed != 5000-16 {
		t.Errorf("%d captured, %d missed", captured, missed)
	}
	for i, rec := range records(capture) {
		if number(rec.Data) != i {
			t.Errorf("record %d is packet %d", i, number(rec.Data))
		}
	}
}

func TestCapturesStartAndStopUnderLoad(t *testing.T) {
	r := newRig(t, 64)
	r.queues[0].Play(numbered(1000, "10.1.0.1"), -1)
	r.start()
	for i := range 50 {
		a := r.router.StartCapture(everything(100, dataplane.Received, dataplane.Sent))
		b := r.router.StartCapture(everything(100, dataplane.Decided))
		for seen := 0; seen < 10; {
			seen += a.Read(func(*dataplane.Record) bool { return true })
		}
		r.router.StopCapture(a)
		if i%2 == 0 {
			b.Read(func(rec *dataplane.Record) bool { return false })
		}
		r.router.StopCapture(b)
	}
	r.queues[0].Pause()
	r.stop()
}

func TestTraceRecordsTheDecision(t *testing.T) {
	r := newRig(t, 64)
	r.fib.SetAdjacency(r.adj[0], 0, 0) // the neighbour on port 0 is not resolved
	frames := [][]byte{
		testutil.UDP4("192.0.2.1", "10.1.0.1", 1, 2), testutil.UDP4("192.0.2.1", "172.16.0.1", 1, 2), testutil.UDP4("192.0.2.1", "10.0.0.1", 1, 2),
	}
	r.queues[0].Play(frames, len(frames))
	capture := r.startWith(everything(100, dataplane.Decided))[0]
	var got []dataplane.Record
	r.wait("all", func(s *dataplane.Stats) bool { // records come behind what is counted
		got = append(got, records(capture)...)
		return s.Ports[1].TxPackets == 1 && s.Ports[0].Drops[batch.NoRoute] == 1 && s.Waiting == 1 && len(got) >= len(frames)
	})
	r.stop()
	if len(got) != 3 {
		t.Fatalf("%d records", len(got))
	}
	for i, rec := range got {
		if !bytes.Equal(rec.Data, frames[i]) {
			t.Errorf("packet %d: % x, want % x", i, rec.Data, frames[i])
		}
		if d := rec.Decision; d.Packets != 3 || d.Sent < d.Received || d.Received == 0 || d.Moved {
			t.Errorf("packet %d: %+v", i, d)
		}
	}
	if d := got[0].Decision; d.Result.Verdict != batch.Forward(1) || d.Dropped || !bytes.Equal(d.After, r.out[1][0]) {
		t.Errorf("forwarded: %v, % x", d.Result.Verdict, d.After)
	}
	if d := got[1].Decision; d.Result.Verdict != batch.Drop(batch.NoRoute) || !d.Dropped || d.Reason != batch.NoRoute {
		t.Errorf("dropped: %v, %v %v", d.Result.Verdict, d.Dropped, d.Reason)
	}
	if d := got[2].Decision; d.Result.Verdict != batch.Hold || d.Result.Adjacency() != r.adj[0] {
		t.Errorf("held: %v of %d", d.Result.Verdict, d.Result.Adjacency())
	}
}
