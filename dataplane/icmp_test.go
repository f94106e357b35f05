package dataplane_test

import (
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/packet/icmp"
)

func TestICMPErrorsAreRateLimited(t *testing.T) {
	r := newRig(t, 256)
	r.queues[0].Play(numbered(1000, "172.16.0.1"), 100_000)
	r.startWithReturnRoute()
	r.wait("all packets", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 100_000 })
	if s := r.stop(); s.Originated == 0 || s.Originated > 30 {
		t.Errorf("%d errors about packets of one source at once, want 10 or some more", s.Originated)
	}
}

// ICMP errors cause no ICMP errors.
func TestICMPErrorsWithoutRouteAreDropped(t *testing.T) {
	r := newRig(t, 64)
	r.queues[0].Play(numbered(5, "172.16.0.1"), 5)
	r.start()
	r.wait("5 drops", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 5 })
	time.Sleep(20 * time.Millisecond)
	if s := r.stop(); s.Originated != 0 || s.Ports[0].Drops[batch.NoRoute] != 5 {
		t.Errorf("%d packets made, drops %v", s.Originated, s.Ports[0].Drops)
	}
}

// A rate of 0 disables ICMP errors.
func TestICMPLimitsAreConfigurable(t *testing.T) {
	for _, c := range []struct {
		limits icmp.Limits
		want   int64
	}{
		{icmp.Limits{Global: icmp.Rate{PerSecond: 1, Burst: 40}, Source: icmp.Rate{PerSecond: 1, Burst: 70}}, 40},
		{icmp.Limits{Global: icmp.Rate{PerSecond: 1, Burst: 70}, Source: icmp.Rate{PerSecond: 1, Burst: 30}}, 30},
		{icmp.Limits{Source: icmp.Rate{PerSecond: 1, Burst: 30}}, 0},
	} {
		r := newRig(t, 64)
		r.config.Limits = c.limits
		r.queues[0].Play(numbered(200, "172.16.0.1"), 200)
		r.startWithReturnRoute()
		r.wait("all packets", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 200 })
		// One more a second may come while that takes.
		if s := r.stop(); s.Originated < c.want || s.Originated > c.want+30 || (c.want == 0) != (s.Originated == 0) {
			t.Errorf("%+v: %d errors, want %d", c.limits, s.Originated, c.want)
		}
	}
}
