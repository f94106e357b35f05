package ipsec

import (
	"errors"
	"fmt"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/packet"
)

// round is one timed run.
type round struct {
	engine   string
	packets  uint64
	bytes    float64 // of an inner IP packet
	seconds  float64
	p50, p99 float64            // of a chunk, in µs
	stages   map[string]float64 // ns per packet
}

func (r round) mpps() float64 { return float64(r.packets) / r.seconds / 1e6 }

// errTooFast is of a round that was over before it could be looked at, as it may be where
// other work has the processors.
var errTooFast = errors.New("played too fast to be timed")

// measure runs the gateway at full speed with associations that are new.
func (t *traffic) measure(rings []ring) (r round, err error) {
	for range 20 {
		if r, err = t.measureOnce(rings); !errors.Is(err, errTooFast) {
			break
		}
	}
	return r, err
}

func (t *traffic) measureOnce(rings []ring) (round, error) {
	b, err := t.newBed(t.Bed.Workers, t.Window)
	if err != nil {
		return round{}, err
	}
	r, err := t.time(b, rings, t.Window > 0)
	if err == nil && r.engine != t.Engine {
		err = fmt.Errorf("the engine was %s in the end, not %s: it failed", r.engine, t.Engine)
	}
	return r, errors.Join(err, b.Close())
}

// measureOther plays the same packets to other engines, which do not mind having them
// again.
func (t *traffic) measureOther(rings []ring, engines bed.Maker) (round, error) {
	b, err := bed.New(t.Bed, t.base, engines)
	if err != nil {
		return round{}, err
	}
	r, err := t.time(b, rings, false)
	return r, errors.Join(err, b.Close())
}

// time plays the packets and counts between two moments at which the router is at
// speed: by the clock, or, where each packet is played once, when a tenth and when nine
// tenths of them are through.
func (t *traffic) time(b *bed.Bed, rings []ring, once bool) (round, error) {
	total := uint64(0)
	for w, q := range b.In {
		count := -1
		if once {
			count = len(rings[w].tunnels)
			total += uint64(count)
		}
		q.PlayTape(rings[w].tape, rings[w].first, count)
	}
	if err := b.Start(); err != nil {
		return round{}, err
	}
	sent := uint64(0)
	until := func(share float64, d time.Duration) (*dataplane.Stats, time.Time) {
		enough := uint64(share * float64(total))
		if !once {
			time.Sleep(d)
			enough = sent + 1 // where other work has the processors, the router may have slept, too
		}
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			s := b.Router.Stats()
			sent = s.Ports[bed.EgressPort].TxPackets
			// A packet may have been dropped: then the round fails, and is not waited for.
			if sent >= enough || s.Ports[0].Dropped() > 0 || time.Since(start) > patience {
				return s, time.Now()
			}
		}
	}
	before, start := until(0.1, t.Duration/10)
	after, end := until(0.9, t.Duration)
	b.Stop()
	if n := after.Ports[0].Dropped(); n > 0 {
		return round{}, fmt.Errorf("%d of %d packets were dropped while measuring: %v", n, after.Ports[0].RxPackets, reasons(&after.Ports[0]))
	}
	r := t.roundOf(before, after, end.Sub(start))
	if once && r.packets < total/2 {
		return r, fmt.Errorf("%d packets were %w: raise --ring, which is %d MiB a worker", total, errTooFast, t.Ring)
	}
	return r, nil
}

// reasons names the drops of a port.
func reasons(p *dataplane.PortStats) (names []string) {
	for reason, n := range p.Drops {
		if n > 0 {
			names = append(names, batch.Reason(reason).String())
		}
	}
	return names
}

// roundOf is what happened between two moments.
func (t *traffic) roundOf(before, after *dataplane.Stats, elapsed time.Duration) round {
	// On the side where packets are in clear.
	size := func(s *dataplane.Stats) (packets, bytes uint64) {
		if t.Direction == in {
			return s.Ports[bed.EgressPort].TxPackets, s.Ports[bed.EgressPort].TxBytes
		}
		return s.Ports[0].RxPackets, s.Ports[0].RxBytes
	}
	p0, b0 := size(before)
	p1, b1 := size(after)
	r := round{
		engine: after.Engine, seconds: elapsed.Seconds(), stages: map[string]float64{},
		packets: after.Ports[bed.EgressPort].TxPackets - before.Ports[bed.EgressPort].TxPackets,
		bytes:   float64(b1-b0)/float64(p1-p0) - packet.EthernetLen,
	}
	for s := range dataplane.Stage(dataplane.NumStages) {
		after.Stages[s].Sub(&before.Stages[s])
		r.stages[s.String()] = float64(after.Stages[s].Sum) / float64(r.packets)
	}
	total := &after.Stages[dataplane.StageTotal]
	r.p50, r.p99 = float64(total.Quantile(0.5))/1e3, float64(total.Quantile(0.99))/1e3
	return r
}
