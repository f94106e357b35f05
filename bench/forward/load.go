package forward

import (
	"fmt"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/memport"
)

// Load verifies a router and returns it to be measured under load. With o.Testbed.Prepared, packets are
// prepared for the verification too.
func Load(o Options) (*testbed.Subject, error) {
	if err := o.Testbed.Check(); err != nil {
		return nil, err
	}
	_, routes, base, play, err := o.prepare(o.variety())
	if err != nil {
		return nil, err
	}
	s := &testbed.Subject{Summary: testbed.NewSummary(o.Testbed, o.IPv6, o.Table, len(routes))}
	s.Engine, s.Prepared = o.Engine, o.Testbed.Prepared
	if s.Verified, err = verify(o, base, routes, play, nil); err != nil {
		return nil, fmt.Errorf("verify before measuring: %w", err)
	}
	tape := memport.Record(play)
	s.Open = func() (*testbed.Testbed, int, error) {
		b, err := testbed.New(o.Testbed, base, o.engines(base))
		if err != nil {
			return nil, 0, err
		}
		for i, q := range b.In {
			q.PlayRecording(tape, i*tape.Len()/len(b.In), -1)
		}
		return b, o.Testbed.Prepared, nil
	}
	return s, nil
}
