package gen

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
)

func TestRunEndsWhenAllPacketsArrive(t *testing.T) {
	tx, rx := ports(t, newWire())
	start := time.Now()
	mustRun(t, tx, rx, testTraffic(1), Options{Count: 10, Drain: time.Minute})
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("took %v", d)
	}
}

// The receiver is stopped before it starts.
func TestReceiverDrainsItsRings(t *testing.T) {
	w := newWire()
	tx, rx := ports(t, w)
	mustRun(t, tx, nil, testTraffic(1), Options{Count: 300})
	c := newListener(&rx.Workers[0])
	c.queues[0].Refill() // as OpenPort does
	r := &running{}
	r.stop.Store(true)
	require.NoError(t, (&worker{cpu: affinity.Any, receiver: c}).run(r))
	// The queue has 256 frames to receive into, and is given them again.
	if got := c.received.Load(); got != 300 {
		t.Errorf("received %d packets of 300 that were there", got)
	}
}

// On a busy machine the last packets can be missing.
func TestRunEndsAfterDuration(t *testing.T) {
	tx, rx := ports(t, newWire())
	rep := mustRun(t, tx, rx, testTraffic(3), Options{Rate: 10_000, Duration: 100 * time.Millisecond})
	if s := rep.Send; s.Packets == 0 || s.Packets > 1000 {
		t.Errorf("sent %d packets in 100 ms at 10000 per second", s.Packets)
	}
	if got := rep.Receive.Packets; got != rep.Send.Packets {
		t.Errorf("received %d of %d packets", got, rep.Send.Packets)
	}
}

func TestListenerCountsOneRun(t *testing.T) {
	_, rx := ports(t, newWire())
	c := newListener(&rx.Workers[0])
	if !c.expects(&probe{run: 1, flow: 2}) || c.expects(&probe{run: 2, flow: 1000}) || c.expects(&probe{run: 1, flow: MaxFlows}) || !c.expects(&probe{run: 1, flow: 3}) {
		t.Error("the first run is not the one that counts")
	}
	if len(c.flows.of) != 4 {
		t.Errorf("%d flows are tracked, want 4", len(c.flows.of))
	}
}

func TestCancelledRunReports(t *testing.T) {
	tx, rx := ports(t, newWire())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tx.Workers[0].Queues[0] = &watched{tx.Workers[0].Queues[0], cancel}
	rep, err := Run(ctx, tx, rx, testTraffic(1), Options{Rate: 10_000, Duration: time.Hour})
	require.NoError(t, err)
	if rep.Send.Packets == 0 || rep.Receive.Packets != rep.Send.Packets {
		t.Errorf("sent %d, received %d", rep.Send.Packets, rep.Receive.Packets)
	}
}

// watched is a queue that reports transmits.
type watched struct {
	dataplane.Queue
	sent func()
}

func (w *watched) Transmit(frames []batch.Frame) int {
	if len(frames) > 0 {
		w.sent()
	}
	return w.Queue.Transmit(frames)
}

// stuck is a queue that accepts nothing.
type stuck struct{ end }

func (*stuck) Transmit([]batch.Frame) int { return 0 }

func TestStuckPortIsAnError(t *testing.T) {
	tx := memoryPort(t, "tx", end{})
	tx.Workers[0].Queues[0] = &stuck{}
	_, err := Run(context.Background(), tx, nil, testTraffic(1), Options{Count: 10})
	if !errors.Is(err, errStuck) {
		t.Errorf("got error %v", err)
	}
}
