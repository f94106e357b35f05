package ipsec

import (
	"fmt"

	"github.com/warproute/warproute/bench/testbed"
)

// Load verifies a gateway and returns it to be measured under load, with the replay window that is active
// then. Each round has new SAs, because a sequence number is accepted once.
func Load(o Options) (s *testbed.Subject, window int, err error) {
	if err := o.Testbed.Check(); err != nil {
		return nil, 0, err
	}
	o.limitWindow()
	t, err := newTraffic(&o)
	if err != nil {
		return nil, 0, err
	}
	s = &testbed.Subject{Summary: testbed.NewSummary(o.Testbed, o.IPv6, o.Table, len(t.routes))}
	s.Engine = o.Engine
	if s.Verified, err = t.verify(); err != nil {
		return nil, 0, fmt.Errorf("verify %s, %s, before measuring: %w", o.Suite, names[o.Direction], err)
	}
	rings, err := t.rings(t.protect)
	if err != nil {
		return nil, 0, err
	}
	packets := o.Testbed.Prepared
	if o.Window > 0 { // each packet is played once
		for _, r := range rings {
			if n := len(r.tunnels); packets == 0 || n < packets {
				packets = n
			}
		}
		o.Testbed.Prepared = min(o.Testbed.Prepared, packets)
	}
	s.Open = func() (*testbed.Testbed, int, error) {
		b, err := t.newTestbed(o.Testbed.Workers, o.Window)
		if err != nil {
			return nil, 0, err
		}
		for w, q := range b.In {
			q.PlayRecording(rings[w].tape, rings[w].first, -1)
		}
		b.Prepare()
		return b, packets, nil
	}
	return s, o.Window, nil
}

// limitWindow turns the replay window off where packets of an SA reach several workers, out of order
// beyond any window, and where none is used.
func (o *Options) limitWindow() {
	if o.Direction != in || o.SAs < o.Testbed.Workers {
		o.Window = 0
	}
}
