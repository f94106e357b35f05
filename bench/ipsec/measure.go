package ipsec

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/packet"
)

// errTooFast is the error of a round that ended before its second sample.
var errTooFast = errors.New("played too fast to be timed")

// measure runs the gateway at full rate with new SAs.
func (t *traffic) measure(rings []ring) (r testbed.Round, err error) {
	for range 20 {
		if r, err = t.measureOnce(rings); !errors.Is(err, errTooFast) {
			break
		}
	}
	return r, err
}

func (t *traffic) measureOnce(rings []ring) (testbed.Round, error) {
	b, err := t.newTestbed(t.Testbed.Workers, t.Window)
	if err != nil {
		return testbed.Round{}, err
	}
	r, err := t.time(b, rings, t.Window > 0)
	if err == nil && r.Engine != t.Engine {
		err = fmt.Errorf("engine %s at the end, not %s: it failed", r.Engine, t.Engine)
	}
	return r, errors.Join(err, b.Close())
}

// measureOther plays the same packets to other engines, which accept them repeatedly.
func (t *traffic) measureOther(rings []ring, engines testbed.Engines) (testbed.Round, error) {
	b, err := testbed.New(t.Testbed, t.base, engines)
	if err != nil {
		return testbed.Round{}, err
	}
	r, err := t.time(b, rings, false)
	return r, errors.Join(err, b.Close())
}

// time plays the packets and returns the traffic between two samples at full rate: after a warm-up and Duration,
// or, if each packet is played once, after 10 % and 90 % of them.
func (t *traffic) time(b *testbed.Testbed, rings []ring, once bool) (testbed.Round, error) {
	total := uint64(0)
	for w, q := range b.In {
		count := -1
		if once {
			count = len(rings[w].tunnels)
			total += uint64(count)
		}
		q.PlayRecording(rings[w].tape, rings[w].first, count)
	}
	if err := b.Start(); err != nil {
		return testbed.Round{}, err
	}
	sent := uint64(0)
	until := func(share float64, d time.Duration) (*dataplane.Stats, time.Time) {
		enough := uint64(share * float64(total))
		if !once {
			time.Sleep(d)
			enough = sent + 1 // on a busy machine the router may not have run
		}
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			s := b.Router.Stats()
			in := &s.Ports[0]
			full := in.Drops[batch.LaneFull] // lanes drop packets that arrive too fast
			sent = s.Ports[testbed.EgressPort].TxPackets + full
			// The round fails if a packet is dropped for another reason.
			if sent >= enough || in.Dropped() > full || time.Since(start) > timeout {
				return s, time.Now()
			}
		}
	}
	before, start := until(0.1, testbed.Warmup(t.Duration)) // a GPU is lent the numbers of new SAs first
	after, end := until(0.9, t.Duration)
	b.Stop()
	if in := &after.Ports[0]; in.Dropped() > in.Drops[batch.LaneFull] {
		return testbed.Round{}, fmt.Errorf("%d of %d packets dropped: %v", in.Dropped(), in.RxPackets, testbed.Reasons(in))
	}
	r := t.newRound(before, after, end.Sub(start))
	if full := after.Ports[0].Drops[batch.LaneFull] - before.Ports[0].Drops[batch.LaneFull]; once && r.Packets+full < total/2 {
		return r, fmt.Errorf("%d packets %w: raise --ring, which is %d MiB per worker", total, errTooFast, t.Ring)
	}
	return r, nil
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
	r := testbed.NewRound(before, after, elapsed)
	r.Bytes = float64(b1-b0)/float64(p1-p0) - packet.EthernetLen
	return r
}
