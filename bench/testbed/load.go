package testbed

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/memport"
)

// Subject is a verified router to measure under load.
type Subject struct {
	Summary
	Meter *Meter // of the GPUs; nil: none
	// Open returns a testbed whose queues have their packets, and how many of them each receives in its
	// life; 0: any number.
	Open func() (b *Testbed, packets int, err error)
}

// Tester returns trials of the subject. A testbed receives prepared packets once, so a trial consists of
// as many rounds as it needs, each with a new testbed: new memory, new SAs, and packets written again
// before the load begins.
func (s *Subject) Tester(a load.Arrival, seed uint64) load.Tester {
	return func(rate float64, d time.Duration) (*load.Trial, error) {
		trial := &load.Trial{}
		for left := d; left > 0; seed++ {
			r, took, err := s.round(a, rate, left, seed)
			if err != nil {
				return nil, err
			}
			trial.Join(r)
			left -= took
		}
		return trial, nil
	}
}

// round offers a load for a time, or for as long as the packets last.
func (s *Subject) round(a load.Arrival, rate float64, d time.Duration, seed uint64) (t *load.Trial, took time.Duration, err error) {
	b, packets, err := s.Open()
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if packets > 0 {
		longest := duration(packets, a, rate/float64(len(b.In)))
		if longest <= 0 {
			return nil, 0, fmt.Errorf("%d prepared packets of a worker are too few for a round: raise --memory or --ring", packets)
		}
		if d > longest { // equal rounds
			d /= time.Duration(math.Ceil(float64(d) / float64(longest)))
		}
	}
	if t, err = b.offer(a, rate, d, seed, s.Meter); err == nil && t.Engine != s.Engine {
		err = fmt.Errorf("engine %s at the end, not %s: it failed", t.Engine, s.Engine)
	}
	return t, d, err
}

// warmup returns the time before the measurement of a round, in which the load is offered too.
func warmup(d time.Duration) time.Duration { return min(d/10, 100*time.Millisecond) }

// duration returns the time, without warm-up, in which no more than packets arrive at a queue. Poisson
// arrivals exceed the mean by six standard deviations at most.
func duration(packets int, a load.Arrival, rate float64) time.Duration {
	n := float64(packets) - 1
	switch a.Kind {
	case load.Poisson:
		n -= 6 * math.Sqrt(n)
	case load.Burst:
		n -= float64(a.Burst)
	}
	return time.Duration(n / rate / 1.1 * float64(time.Second))
}

// drainTime limits the time without a departure, after the last arrival: longer than pauses of a busy host.
const drainTime = 10 * time.Second

// offered is the load of a worker.
type offered struct {
	*memport.Load
	offer    *load.Offer
	recorder *load.Recorder
}

// offer starts the router, offers a load and returns what became of it. It fails if a packet is neither
// delivered nor lost in the receive ring, or if a frame disappears.
func (b *Testbed) offer(a load.Arrival, rate float64, d time.Duration, seed uint64, m *Meter) (*load.Trial, error) {
	warm := warmup(d)
	loads := make([]offered, len(b.In))
	for i := range loads {
		o, r := load.NewOffer(load.NewSchedule(a, rate, warm+d, i, len(b.In), seed), warm), load.NewRecorder(warm)
		loads[i] = offered{memport.Offer(b.In[i], b.Out[i], o, r), o, r}
	}
	runtime.GC() // rather than during the measurement
	if err := b.Start(); err != nil {
		return nil, err
	}
	begin := batch.Clock() + time.Millisecond
	for _, l := range loads {
		l.Begin(begin)
	}
	time.Sleep(begin + warm - batch.Clock())
	meterErr := m.begin()
	before, start := b.Router.Stats(), batch.Clock()
	for left := begin + warm + d - batch.Clock(); left > 0; left = begin + warm + d - batch.Clock() {
		time.Sleep(min(left, SamplePeriod))
		meterErr = errors.Join(meterErr, m.sample())
	}
	after, end := b.Router.Stats(), batch.Clock()
	use, err := m.end()
	b.drain(loads)
	b.Stop()
	if err := errors.Join(meterErr, err, b.checkDelivered(loads), b.checkFrames()); err != nil {
		return nil, err
	}
	t := &load.Trial{Rate: rate, Seconds: d.Seconds(), Queue: memport.RingSize, Queues: len(b.In), GPU: use, Engine: after.Engine}
	for _, l := range loads {
		t.Add(l.offer, l.recorder)
		lag := l.Lag()
		t.Lag, t.EndLag, t.Behind = max(t.Lag, lag.Longest), max(t.EndLag, lag.Last), max(t.Behind, lag.Behind)
	}
	// An idle iteration counts when it ends: one that Linux paused before the start is longer than its part.
	t.CPU = max(0, float64(len(b.In))*float64(end-start)-float64(after.Idle-before.Idle))
	t.Sent = after.Ports[EgressPort].TxPackets - before.Ports[EgressPort].TxPackets
	t.Stages = stagesBetween(before, after)
	return t, t.Check()
}

// stagesBetween returns the latencies of chunks between two moments.
func stagesBetween(before, after *dataplane.Stats) map[string]*hist.Snapshot {
	stages := map[string]*hist.Snapshot{}
	for s := range dataplane.Stage(dataplane.NumStages) {
		h := after.Stages[s]
		h.Sub(&before.Stages[s])
		stages[s.String()] = &h
	}
	return stages
}

// drain waits until all packets have arrived and left, or until one cannot leave.
func (b *Testbed) drain(loads []offered) {
	delivered := uint64(0)
	for progress := time.Now(); time.Since(progress) < drainTime; time.Sleep(time.Millisecond) {
		done, now := true, uint64(0)
		for _, l := range loads {
			done = done && l.Ended() && l.Delivered() == l.offer.Expected()
			now += l.Delivered()
		}
		if done || b.Router.Stats().Ports[0].Dropped() > 0 {
			return
		}
		if now != delivered {
			delivered, progress = now, time.Now()
		}
	}
}

// checkDelivered returns an error if a packet is neither delivered nor lost. The router has stopped.
func (b *Testbed) checkDelivered(loads []offered) error {
	for w, l := range loads {
		if want := l.offer.Expected(); !l.Ended() || l.Delivered() != want {
			stats := b.Router.Stats()
			return fmt.Errorf("worker %d: %d of %d packets left; drop reasons: %v",
				w, l.Delivered(), want, Reasons(&stats.Ports[0]))
		}
	}
	return nil
}

// Reasons returns the drop reasons of a port.
func Reasons(p *dataplane.PortStats) (names []string) {
	for reason, n := range p.Drops {
		if n > 0 {
			names = append(names, batch.Reason(reason).String())
		}
	}
	return names
}
