package testbed

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/memport"
)

// stream is packets that each worker receives from one queue and transmits to another one.
type stream struct {
	in, out []*memport.Queue
	port    int // of in
	rate    float64
}

// Limits of warm-ups. In a round, all SAs of a gateway are new, and a GPU is lent their numbers first.
const (
	shortWarmup = 30 * time.Millisecond
	longWarmup  = 100 * time.Millisecond
)

// Warmup returns the time before the measurement of a round, in which the load is offered too: a tenth of the measured time d, but at
// least shortWarmup or as long as d itself, and at most longWarmup.
func Warmup(d time.Duration) time.Duration { return min(max(d/10, min(d, shortWarmup)), longWarmup) }

// measured returns the time that can be measured in a round with a warm-up.
func measured(round time.Duration) time.Duration {
	switch {
	case round <= 2*shortWarmup:
		return round / 2
	case round <= 11*shortWarmup:
		return round - shortWarmup
	case round <= 11*longWarmup:
		return round * 10 / 11
	}
	return round - longWarmup
}

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
	return measured(time.Duration(n / rate * float64(time.Second)))
}

// startTime is the time between the start of the router and the first arrival: its threads have started then,
// and have the memory that they poll.
const startTime = 20 * time.Millisecond

// drainTime limits the time without a departure, after the last arrival: longer than pauses of a busy host.
const drainTime = 10 * time.Second

// offered is the load of a worker.
type offered struct {
	*memport.Load
	offer    *load.Offer
	recorder *load.Recorder
}

// offer starts the router, offers a load and returns what became of it. It fails if a packet is neither
// delivered nor lost in the receive ring or in the queue of a lane, or if a frame disappears.
func (b *Testbed) offer(streams []stream, a load.Arrival, d time.Duration, seed uint64, m *Meter) (*Mixed, error) {
	warm := Warmup(d)
	loads := make([][]offered, len(streams)) // by stream and worker
	for k, s := range streams {
		for i, in := range s.in {
			o, r := load.NewOffer(load.NewSchedule(a, s.rate, warm+d, i, len(s.in), seed), warm), load.NewRecorder(warm)
			loads[k] = append(loads[k], offered{memport.Offer(in, s.out[i], o, r), o, r})
		}
	}
	runtime.GC() // rather than during the measurement
	if err := b.Start(); err != nil {
		return nil, err
	}
	begin := batch.Clock() + startTime
	for _, l := range slices.Concat(loads...) {
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
	b.drain(streams, loads)
	b.Stop()
	if err := errors.Join(meterErr, err, b.checkDelivered(streams, loads), b.checkFrames()); err != nil {
		return nil, err
	}
	trials, final := make([]*load.Trial, len(streams)), b.Router.Stats()
	for k, s := range streams {
		t := &load.Trial{Rate: s.rate, Seconds: d.Seconds(), Queue: memport.RingSize, Queues: len(s.in), Engine: after.Engine}
		for _, l := range loads[k] {
			t.Add(l.offer, l.recorder)
			lag := l.Lag()
			t.Lag, t.EndLag, t.Behind = max(t.Lag, lag.Longest), max(t.EndLag, lag.Last), max(t.Behind, lag.Behind)
		}
		if final.Ports[s.port].Drops[batch.LaneFull] > 0 { // all others were delivered
			t.Lost = t.Offered - t.Delivered
		}
		if err := t.Check(); err != nil {
			return nil, err
		}
		trials[k] = t
	}
	t := trials[0]
	t.CPU = float64(busyTime(before, after, end-start, len(b.In)))
	for p := range after.Ports {
		t.Sent += after.Ports[p].TxPackets - before.Ports[p].TxPackets
	}
	t.GPU, t.Stages = use, stagesBetween(before, after)
	mixed := &Mixed{Main: t}
	if len(trials) > 1 {
		mixed.Express = trials[1]
	}
	if len(after.Lanes) > 1 {
		mixed.Missed, mixed.Sorted = after.Lanes[0].Missed-before.Lanes[0].Missed, after.Lanes[0].Packets-before.Lanes[0].Packets
	}
	return mixed, nil
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

// drain waits until all packets have arrived and left or were dropped by full lanes, or until one cannot
// leave.
func (b *Testbed) drain(streams []stream, loads [][]offered) {
	settled := uint64(0)
	for progress := time.Now(); time.Since(progress) < drainTime; time.Sleep(time.Millisecond) {
		done, now, stats := true, uint64(0), b.Router.Stats()
		for k, s := range streams {
			p := &stats.Ports[s.port]
			if p.Dropped() > p.Drops[batch.LaneFull] {
				return
			}
			ended, n := settle(loads[k], p)
			now += n
			done = done && ended && n >= expected(loads[k])
		}
		if done {
			return
		}
		if now != settled {
			settled, progress = now, time.Now()
		}
	}
}

// settle returns how many packets left or were dropped by full lanes, and whether all have arrived.
func settle(loads []offered, p *dataplane.PortStats) (ended bool, packets uint64) {
	ended, packets = true, p.Drops[batch.LaneFull]
	for _, l := range loads {
		ended = ended && l.Ended()
		packets += l.Delivered()
	}
	return ended, packets
}

// expected returns how many packets did not find the receive ring full. They have all arrived.
func expected(loads []offered) (packets uint64) {
	for _, l := range loads {
		packets += l.offer.Expected()
	}
	return packets
}

// checkDelivered returns an error if a packet is neither delivered nor lost. The router has stopped.
func (b *Testbed) checkDelivered(streams []stream, loads [][]offered) error {
	stats := b.Router.Stats()
	for k, s := range streams {
		p := &stats.Ports[s.port]
		if ended, n := settle(loads[k], p); !ended || n != expected(loads[k]) {
			return fmt.Errorf("port %d: %d of %d packets left or were dropped by full lanes; drop reasons: %v", s.port, n, expected(loads[k]), Reasons(p))
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
