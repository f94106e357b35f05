package ipsec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
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

// measure runs the gateway at full speed with associations that are new.
func (t *traffic) measure(play [][][]byte) (round, error) {
	b, err := t.newBed(t.Bed.Workers, t.Window)
	if err != nil {
		return round{}, err
	}
	r, err := t.time(b, play, t.Window > 0)
	if err == nil && r.engine != t.Engine {
		err = fmt.Errorf("the engine was %s in the end, not %s: it failed", r.engine, t.Engine)
	}
	return r, errors.Join(err, b.Close())
}

// limit measures the same ports and packets without an engine.
func (t *traffic) limit(play [][][]byte) (float64, error) {
	b, err := bed.New(t.Bed, t.base, bed.Blind)
	if err != nil {
		return 0, err
	}
	r, err := t.time(b, play, false)
	return r.mpps(), errors.Join(err, b.Close())
}

// time plays the packets and counts between two moments at which the router is at
// speed: by the clock, or, where each packet is played once, when a tenth and when nine
// tenths of them are through.
func (t *traffic) time(b *bed.Bed, play [][][]byte, once bool) (round, error) {
	total := uint64(0)
	for w, q := range b.In {
		count := -1
		if once {
			count = len(play[w])
			total += uint64(count)
		}
		q.Play(play[w], count)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + len(b.In)))
	if err := b.Router.Start(); err != nil {
		return round{}, err
	}
	until := func(share float64, d time.Duration) (*dataplane.Stats, time.Time) {
		if !once {
			time.Sleep(d)
		}
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			s := b.Router.Stats()
			// A packet may have been dropped: then the round fails, and is not waited for.
			if s.Ports[bed.EgressPort].TxPackets >= uint64(share*float64(total)) || s.Ports[0].Dropped() > 0 || time.Since(start) > patience {
				return s, time.Now()
			}
		}
	}
	before, start := until(0.1, t.Duration/10)
	after, end := until(0.9, t.Duration)
	for _, q := range b.In {
		q.Pause()
	}
	b.Router.Stop()
	if n := after.Ports[0].Dropped(); n > 0 {
		return round{}, fmt.Errorf("%d of %d packets were dropped while measuring: %v", n, after.Ports[0].RxPackets, reasons(&after.Ports[0]))
	}
	return t.roundOf(before, after, end.Sub(start)), nil
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

// timeLibrary returns how many nanoseconds Go's crypto packages take for a packet,
// where worker 0 runs.
func (t *traffic) timeLibrary() (float64, error) {
	cpus, err := affinity.CPUs()
	if err != nil {
		return 0, err
	}
	restore, err := affinity.Pin(cpus[len(cpus)-1])
	if err != nil {
		return 0, err
	}
	defer restore()
	l := t.tunnels[0].library
	var sealed [][]byte
	for _, n := range t.Sizes {
		p := make([]byte, headerLen+t.suite.IVLen+n+len(l.trailer(n, 0))+t.suite.ICVLen)
		binary.BigEndian.PutUint32(p, t.tunnels[0].spi)
		l.seal(p)
		sealed = append(sealed, p)
	}
	scratch := make([]byte, len(sealed[0])+umem.FrameSize)
	count, start := 0, time.Now()
	for time.Since(start) < t.Duration/4 {
		for range 64 {
			for _, p := range sealed {
				if t.Direction != in {
					l.seal(p)
				} else if _, ok := l.open(scratch, p); !ok {
					return 0, errors.New("time Go's crypto packages: they refuse what they have sealed")
				}
				count++
			}
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(count), nil
}
