package ipsec

import (
	"cmp"
	"fmt"
	"math"

	"github.com/warproute/warproute/bench/testbed"
)

// Load verifies a gateway and returns it to be measured under load, with the replay window that is active
// then. Each round has new SAs, because a sequence number is accepted once.
func Load(o Options) (s *testbed.Subject, window int, err error) {
	s, _, err = openLoad(&o)
	return s, o.Window, err
}

// openLoad is Load. The returned traffic has the options that the next round uses.
func openLoad(o *Options) (s *testbed.Subject, t *traffic, err error) {
	if err := o.Testbed.Check(); err != nil {
		return nil, nil, err
	}
	o.limitWindow()
	if t, err = newTraffic(o); err != nil {
		return nil, nil, err
	}
	s = &testbed.Subject{Summary: o.summary(len(t.routes))}
	s.Engine = o.Engine
	if s.Verified, err = t.verify(); err != nil {
		return nil, nil, fmt.Errorf("verify %s, %s, before measuring: %w", o.Suite, names[o.Direction], err)
	}
	rings, err := t.rings(t.protect)
	if err != nil {
		return nil, nil, err
	}
	packets := t.limitPrepared(rings)
	s.Prepared = o.Testbed.Prepared
	s.Open = func() (*testbed.Testbed, int, error) {
		b, err := t.newTestbed(o.Testbed.Workers, o.Window)
		if err != nil {
			return nil, 0, err
		}
		for w, q := range b.In {
			q.PlayRecording(rings[w].tape, rings[w].first, -1)
		}
		return b, packets, nil
	}
	return s, t, nil
}

// limitPrepared lowers the number of prepared packets to those that each worker has, if each packet is played once. It returns how many
// a worker receives in a round, or 0 if they are repeated without end.
func (t *traffic) limitPrepared(rings []ring) (packets int) {
	prepared := &t.Testbed.Prepared
	if t.Window == 0 {
		return *prepared
	}
	packets = math.MaxInt
	for _, r := range rings[:t.Testbed.Offered()] {
		packets = min(packets, len(r.tunnels))
	}
	if *prepared > 0 {
		packets = min(packets, *prepared)
		*prepared = packets
	}
	return packets
}

// summary returns the summary of a gateway.
func (o *Options) summary(routes int) testbed.Summary {
	s := testbed.NewSummary(o.Testbed, o.IPv6, o.Table, routes)
	s.Lanes = cmp.Or(o.Testbed.Lanes, testbed.DefaultLanes)
	return s
}

// limitWindow turns the replay window off where packets of an SA reach several workers, out of order
// beyond any window, and where none is used.
func (o *Options) limitWindow() {
	if o.Direction != in || o.SAs < o.Testbed.Workers {
		o.Window = 0
	}
}
