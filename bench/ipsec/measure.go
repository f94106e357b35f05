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

// Shares of a worker's packets, if each is played once: the warm-up has at least leastWarmup and at most mostWarmup of them. The second
// sample is before any worker has received lastSample, so that all still have packets.
const (
	leastWarmup = 0.1
	mostWarmup  = 0.3
	lastSample  = 0.95
	leastPlayed = 0.25 // between the samples, if these are less than Duration apart
)

// sample is the state of a round at a moment.
type sample struct {
	*dataplane.Stats
	at      time.Time
	sent    uint64  // packets transmitted, and those that lanes dropped as they arrived too fast
	played  float64 // share of its packets that the fastest worker has received; 0 if they are repeated
	dropped uint64  // for another reason
}

// time plays the packets and returns the traffic between two samples at full rate: after a warm-up, and after Duration more or shortly
// before a worker has received its last packet.
func (t *traffic) time(b *testbed.Testbed, rings []ring, packets int) (testbed.Round, error) {
	for w, q := range b.In {
		count := packets
		if packets == 0 {
			count = -1
		}
		q.PlayRecording(rings[w].tape, rings[w].first, count)
	}
	b.Prepare()
	if err := b.Start(); err != nil {
		return testbed.Round{}, err
	}
	await := func(ready func(s *sample, took time.Duration) bool) (s sample) {
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			s = newSample(b, packets)
			if took := s.at.Sub(start); ready(&s, took) || s.dropped > 0 || took > timeout {
				return s
			}
		}
	}
	warmup := testbed.Warmup(t.Duration) // a GPU is lent the numbers of new SAs first
	before := await(func(s *sample, took time.Duration) bool {
		return s.sent > 0 && (took >= warmup && (packets == 0 || s.played >= leastWarmup) || s.played >= mostWarmup)
	})
	after := await(func(s *sample, took time.Duration) bool { // on a busy machine the router may not have run for a while
		return s.sent > before.sent && took >= t.Duration || s.played >= lastSample
	})
	b.Stop()
	if in := &after.Ports[0]; after.dropped > 0 {
		return testbed.Round{}, fmt.Errorf("%d of %d packets dropped: %v", in.Dropped(), in.RxPackets, testbed.Reasons(in))
	}
	elapsed := after.at.Sub(before.at)
	r := t.newRound(before.Stats, after.Stats, elapsed)
	if packets > 0 && elapsed < t.Duration && after.played-before.played < leastPlayed {
		return r, fmt.Errorf("%d packets of a worker %w: raise --ring, which is %d MiB per worker, and --memory with --dma none", packets, errTooFast, t.Ring)
	}
	return r, nil
}

// newSample returns the state of a round.
func newSample(b *testbed.Testbed, packets int) sample {
	s := sample{Stats: b.Router.Stats(), at: time.Now()}
	in := &s.Ports[0]
	full := in.Drops[batch.LaneFull]
	s.sent, s.dropped = s.Ports[testbed.EgressPort].TxPackets+full, in.Dropped()-full
	if packets > 0 {
		for _, q := range b.In {
			s.played = max(s.played, float64(q.Arrived())/float64(packets))
		}
	}
	return s
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
