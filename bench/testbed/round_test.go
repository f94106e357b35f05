package testbed

import (
	"testing"
	"time"

	"github.com/warproute/warproute/dataplane"
)

// TestRoundCountsOfferedWorkers: the sleep of a worker that gets no packets may begin before the round, and count as idle when it ends.
func TestRoundCountsOfferedWorkers(t *testing.T) {
	stats := func(packets uint64, busy ...time.Duration) *dataplane.Stats {
		s := &dataplane.Stats{Ports: make([]dataplane.PortStats, MaxPorts)}
		s.Ports[EgressPort].TxPackets = packets
		for _, b := range busy {
			s.Loads = append(s.Loads, dataplane.LoadStats{Busy: b})
		}
		return s
	}
	before, after := stats(10, 100, 200, 50_000), stats(20, 400, 300, 0)
	if r := NewRound(before, after, time.Second, 2); r.Packets != 10 || r.Busy != 40 {
		t.Errorf("%+v; want 10 packets of 40 ns", r)
	}
}
