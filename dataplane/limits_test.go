package dataplane_test

import (
	"testing"

	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/packet/icmp"
)

// Of a burst of bad packets, as many errors come as the limits allow, and a rate of none
// is none.
func TestLimitsAreThoseGiven(t *testing.T) {
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
		r.startWithWayBack()
		r.wait("all packets", func(s *dataplane.Stats) bool { return s.Ports[0].Dropped() == 200 })
		// One more a second may come while that takes.
		if s := r.stop(); s.Made < c.want || s.Made > c.want+30 || (c.want == 0) != (s.Made == 0) {
			t.Errorf("%+v: %d errors, want %d", c.limits, s.Made, c.want)
		}
	}
}
