package ipsec

import (
	"fmt"
	"runtime"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
)

// Shares of a worker's packets, if each is played once: the warm-up ends when the fastest worker has received leastWarmup of its packets at
// the earliest, and mostWarmup at the latest, and the second sample is taken when it has received lastSample. A round counts if that
// worker was still receiving packets after this sample, and if leastPlayed was between the samples, or the whole duration.
const (
	leastWarmup = 0.1
	mostWarmup  = 0.3
	lastSample  = 0.9
	leastPlayed = 0.25
)

// Limits of the time between two looks at the arrivals of a round. Each look takes a core from a worker or a NIC, if there are no others.
const (
	shortestPoll = 50 * time.Microsecond
	longestPoll  = time.Millisecond
)

// round is a round while it is measured. Each worker receives a number of packets, or repeats them without end: 0.
type round struct {
	*testbed.Testbed
	packets int
}

// sample is the state of a round at a moment.
type sample struct {
	*dataplane.Stats
	at      time.Time
	sent    uint64 // packets transmitted, and those that lanes dropped as they arrived too fast
	dropped uint64 // for another reason
	played  float64
}

// played returns the share of its packets that the fastest worker has received, 0 if they are repeated.
func (r *round) played() (share float64) {
	if r.packets > 0 {
		for _, q := range r.In {
			share = max(share, float64(q.Arrived())/float64(r.packets))
		}
	}
	return share
}

// await waits for a time, and until more than a number of packets are sent, and returns a sample. If packets are played once, it also waits
// until the share least of them is played, but no longer than until the share most is.
func (r *round) await(d time.Duration, least, most float64, sent uint64) (sample, error) {
	poll, last := shortestPoll, r.played()
	for start := time.Now(); ; time.Sleep(poll) {
		took, played := time.Since(start), r.played()
		if played >= most || took >= d && (r.packets == 0 || played >= least) {
			s := r.sample()
			if s.sent > sent || s.dropped > 0 || r.packets > 0 && s.played >= 1 {
				return s, nil
			}
		}
		if took > d+timeout {
			return sample{}, fmt.Errorf("the router made no progress within %v: %.0f %% of the packets of a worker have arrived", took, 100*played)
		}
		poll, last = r.nextPoll(poll, played, last, most), played
	}
}

// nextPoll returns the time until the next look: half of the time until the share of played packets is most, by its growth from last to
// played in the time poll.
func (r *round) nextPoll(poll time.Duration, played, last, most float64) time.Duration {
	switch {
	case r.packets == 0:
		return longestPoll
	case played == 0: // the first packets are about to arrive
		return shortestPoll
	case played <= last || played >= most:
		return longestPoll
	}
	return max(shortestPoll, min(longestPoll, time.Duration(float64(poll)*(most-played)/(played-last)/2)))
}

// sample returns the state of the round. The share of played packets is read last: if it is below 1, no worker had run out of packets.
func (r *round) sample() sample {
	s := sample{Stats: r.Router.Stats(), at: time.Now()}
	in := &s.Ports[0]
	full := in.Drops[batch.LaneFull]
	s.sent, s.dropped = s.Ports[testbed.EgressPort].TxPackets+full, in.Dropped()-full
	s.played = r.played()
	return s
}

// time plays packets and returns the traffic between two samples at full rate: after a warm-up, and after Duration more, or shortly before a
// worker has received its last packet.
func (t *traffic) time(b *testbed.Testbed, rings []ring, packets int) (testbed.Round, error) {
	for w, q := range b.In {
		count := packets
		if packets == 0 {
			count = -1
		}
		q.PlayRecording(rings[w].tape, rings[w].first, count)
	}
	runtime.GC() // rather than during the round
	if err := b.Start(); err != nil {
		return testbed.Round{}, err
	}
	r := round{b, packets}
	before, err := r.await(testbed.Warmup(t.Duration), leastWarmup, mostWarmup, 0) // a GPU is lent the numbers of new SAs first
	var after sample
	if err == nil {
		after, err = r.await(t.Duration, 0, lastSample, before.sent)
	}
	b.Stop()
	if err != nil {
		return testbed.Round{}, err
	}
	if in := &after.Ports[0]; after.dropped > 0 {
		return testbed.Round{}, fmt.Errorf("%d of %d packets dropped: %v", in.Dropped(), in.RxPackets, testbed.Reasons(in))
	}
	elapsed := after.at.Sub(before.at)
	switch {
	case after.sent == before.sent:
	case packets > 0 && after.played >= 1:
	case packets > 0 && elapsed < t.Duration && after.played-before.played < leastPlayed:
	default:
		return t.newRound(before.Stats, after.Stats, elapsed), nil
	}
	return testbed.Round{Engine: after.Engine}, fmt.Errorf("%d packets of a worker %w: raise %s", packets, errTooFast, t.limits())
}

// limits names the flags that limit the packets of a worker, if each is played once.
func (t *traffic) limits() string {
	switch {
	case t.Testbed.Prepared == 0:
		return "--ring"
	case t.Window == 0:
		return "--memory"
	}
	return "--memory and --ring"
}
