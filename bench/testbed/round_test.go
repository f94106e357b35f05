package testbed

import (
	"testing"
	"time"

	"github.com/warproute/warproute/dataplane"
)

// TestRoundCountsOfferedWorkers: a worker that gets no packets sleeps, and the sleep counts as idle when it ends.
func TestRoundCountsOfferedWorkers(t *testing.T) {
	stats := func(packets uint64, elapsed time.Duration, idle ...time.Duration) *dataplane.Stats {
		s := &dataplane.Stats{Ports: make([]dataplane.PortStats, MaxPorts)}
		s.Ports[EgressPort].TxPackets = packets
		for _, i := range idle {
			s.Loads = append(s.Loads, dataplane.LoadStats{Elapsed: elapsed, Busy: elapsed - i})
		}
		return s
	}
	before := stats(10, 1000, 100, 200, 0)
	after := stats(20, 2010, 900, 400, 1900) // read a little later
	if r := NewRound(before, after, 1000, 2); r.Packets != 10 || r.CPU != 200/10+800/10 {
		t.Errorf("%+v; want 10 packets of 100 ns", r)
	}
	before.Loads[1].Busy -= 150 // the worker was paused in an idle poll before
	after.Loads[1].Busy -= 1200
	if r := NewRound(before, after, 1000, 2); r.CPU != 200/10 {
		t.Errorf("%+v; want packets of 20 ns", r)
	}
}
