package ipsec

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/packet"
)

// errTooFast is the error of a round that ended before its second sample.
var errTooFast = errors.New("were played too fast to be timed")

// measure runs the gateway at full rate with new SAs. Each worker receives a number of packets, or repeats them without end: 0.
func (t *traffic) measure(rings []ring, packets int) (testbed.Round, error) {
	return repeated(func() (testbed.Round, error) { return t.measureOnce(rings, packets) })
}

// repeated repeats a round that is too fast.
func repeated(round func() (testbed.Round, error)) (r testbed.Round, err error) {
	for range 20 {
		if r, err = round(); !errors.Is(err, errTooFast) {
			break
		}
	}
	return r, err
}

func (t *traffic) measureOnce(rings []ring, packets int) (testbed.Round, error) {
	b, err := t.newTestbed(t.Testbed.Workers, t.Window)
	if err != nil {
		return testbed.Round{}, err
	}
	r, err := t.time(b, rings, packets)
	if err == nil && r.Engine != t.Engine {
		err = fmt.Errorf("engine %s at the end, not %s: it failed", r.Engine, t.Engine)
	}
	return r, errors.Join(err, b.Close())
}

// measureOther plays the same packets to other engines, which accept them repeatedly. They are repeated unless they are prepared.
func (t *traffic) measureOther(rings []ring, engines testbed.Engines) (testbed.Round, error) {
	return repeated(func() (testbed.Round, error) {
		b, err := testbed.New(t.Testbed, t.base, engines)
		if err != nil {
			return testbed.Round{}, err
		}
		r, err := t.time(b, rings, t.Testbed.Prepared)
		return r, errors.Join(err, b.Close())
	})
}

// newRound returns the traffic between two moments. Its bytes are those of an inner packet.
func (t *traffic) newRound(before, after *dataplane.Stats, elapsed time.Duration) testbed.Round {
	inner := func(s *dataplane.Stats) (packets, bytes uint64) {
		if t.Direction == in {
			return s.Ports[testbed.EgressPort].TxPackets, s.Ports[testbed.EgressPort].TxBytes
		}
		return s.Ports[0].RxPackets, s.Ports[0].RxBytes
	}
	p0, b0 := inner(before)
	p1, b1 := inner(after)
	r := testbed.NewRound(before, after, elapsed, t.Testbed.Offered())
	r.Bytes = float64(b1-b0)/float64(p1-p0) - packet.EthernetLen
	return r
}
