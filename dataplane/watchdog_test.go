package dataplane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
)

// stuckEngine does not return from Submit until it is released.
type stuckEngine struct {
	dataplane.Engine
	entered, release chan struct{}
}

func (e *stuckEngine) Submit(c *batch.Chunk) {
	e.entered <- struct{}{}
	<-e.release
	e.Engine.Submit(c)
}

// A stuck worker is reported, an idle one is not.
func TestProbeReportsStalledWorkers(t *testing.T) {
	r := newRig(t, 64)
	e := &stuckEngine{Engine: r.config.Workers[0].Engine, entered: make(chan struct{}), release: make(chan struct{})}
	r.config.Workers[0].Engine = e
	r.queues[0].Play(numbered(1, "10.1.0.1"), 1)
	r.start()
	silentFor := func(d time.Duration) (silent []int) {
		r.router.StartProbe()
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if silent = r.router.Stalled(); len(silent) == 0 {
				return nil
			}
		}
		return silent
	}
	<-e.entered
	if silent := silentFor(200 * time.Millisecond); !slices.Equal(silent, []int{0}) {
		t.Errorf("stuck: workers %v show no progress, want worker 0", silent)
	}
	close(e.release)
	if silent := silentFor(5 * time.Second); silent != nil {
		t.Errorf("idle: workers %v show no progress", silent)
	}
	r.stop()
}
