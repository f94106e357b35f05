package load

import (
	"math"
	"strings"
	"testing"
	"time"
)

// simulate offers a schedule to a device that needs a time per packet and has a ring, while the generator
// stalls for a time: it hands over the packets of that time at its end.
func simulate(s *Schedule, warmup, service, stallAt, stall time.Duration, ring int) *Trial {
	o, r := NewOffer(s, warmup), NewRecorder(warmup)
	times := make([]time.Duration, 64)
	var leaves []time.Duration // of the packets in the ring and in service
	var free time.Duration     // when the device is free
	for n := o.Next(times); n > 0; n = o.Next(times) {
		for i, t := range times[:n] {
			handed := t
			if t >= stallAt && t < stallAt+stall {
				handed = stallAt + stall
			}
			for len(leaves) > 0 && leaves[0] <= handed {
				leaves = leaves[1:]
			}
			if len(leaves) >= ring {
				o.Lost(times[i : i+1])
				continue
			}
			free = max(free, handed) + service
			leaves = append(leaves, free)
			r.Departed(free, times[i:i+1])
		}
	}
	t := &Trial{Rate: 1e9 / s.interval, Seconds: (time.Duration(s.end) - warmup).Seconds(), Queue: ring, Queues: 1}
	t.Add(o, r)
	return t
}

// A generator that reads the clock when it hands a packet over would report a latency of 100 ns for each
// of these packets (coordinated omission).
func TestStallOfGeneratorIsMeasured(t *testing.T) {
	const stall = 10 * time.Millisecond
	s := NewSchedule(Arrival{}, 1e6, 2*time.Second, 0, 1, 1)
	trial := simulate(s, 0, 100*time.Nanosecond, time.Second, stall, 1<<20)
	if err := trial.Check(); err != nil || trial.Lost != 0 {
		t.Fatalf("%d lost, %v", trial.Lost, err)
	}
	l := NewLatency(&trial.Latency, trial.Longest)
	// 10 ms are 0.5 % of 2 s. In them, latency falls from 10 ms at the rate at which the ring empties, and
	// a share of 0.1 % is above 8 ms.
	if l.P50 > 0.11 || l.P99 > 0.11 {
		t.Errorf("p50 %v µs, p99 %v µs: the stall concerns 0.5 %% of the packets", l.P50, l.P99)
	}
	if math.Abs(l.P999-8200) > 300 || math.Abs(l.Max-10_000) > 10 {
		t.Errorf("p99.9 %v µs, max %v µs; want 8,200 and 10,000", l.P999, l.Max)
	}
	// Half the stall, half the latency.
	half := simulate(NewSchedule(Arrival{}, 1e6, time.Second, 0, 1, 1), 0, 100*time.Nanosecond, time.Second/2, stall/2, 1<<20)
	h := NewLatency(&half.Latency, half.Longest)
	if ratio := l.P999 / h.P999; math.Abs(ratio-2) > 0.1 {
		t.Errorf("p99.9 of %v and %v µs, want half", l.P999, h.P999)
	}
}

func TestOfferedPacketsAreDeliveredOrLost(t *testing.T) {
	for _, a := range []Arrival{{}, {Kind: Poisson}, {Burst, 100}} {
		for _, service := range []time.Duration{100, 900, 1500} { // ns; a packet arrives each 1,000
			s := NewSchedule(a, 1e6, 200*time.Millisecond, 0, 1, 1)
			trial := simulate(s, 20*time.Millisecond, service, 0, 0, 64)
			if err := trial.Check(); err != nil {
				t.Errorf("%v, %v: %v", a, service, err)
			}
			if math.Abs(float64(trial.Offered)-180_000) > 3000 || trial.Delivered == 0 {
				t.Errorf("%v, %v: %d offered, %d delivered", a, service, trial.Offered, trial.Delivered)
			}
			lossy := service > 1000 || a.Kind == Burst
			if trial.Lost > 0 != lossy && a.Kind != Poisson {
				t.Errorf("%v, %v: %d lost", a, service, trial.Lost)
			}
			if a.Kind == Constant && lossy && math.Abs(trial.Loss()-1./3) > 0.01 {
				t.Errorf("%v: loss of %v, want a third", service, trial.Loss())
			}
		}
	}
	if err := (&Trial{Offered: 5, Delivered: 3, Lost: 1}).Check(); err == nil || !strings.Contains(err.Error(), "1 are missing") {
		t.Errorf("a missing packet: %v", err)
	}
}

func TestTrialsOfRoundsAddUp(t *testing.T) {
	var whole Trial
	var packets, lost uint64
	for i := range 3 {
		r := simulate(NewSchedule(Arrival{}, 1e6, 10*time.Millisecond, 0, 1, uint64(i)), 0, 1100, 0, 0, 10)
		r.Lag = time.Duration(i)
		whole.Join(r)
		packets, lost = packets+r.Offered, lost+r.Lost
	}
	if whole.Offered != packets || whole.Lost != lost || whole.Check() != nil || whole.Latency.Count != whole.Delivered ||
		math.Abs(whole.Seconds-0.03) > 1e-9 || whole.Lag != 2 || math.Abs(whole.Throughput()-1e9/1100) > 2000 {
		t.Errorf("%d of %d packets, %d of %d lost, %v s", whole.Offered, packets, whole.Lost, lost, whole.Seconds)
	}
}

func TestLateGeneratorsAreRecognized(t *testing.T) {
	for _, tt := range []struct {
		t                Trial
		overrun, stalled bool
	}{
		{Trial{Seconds: 1, Rate: 1e6, Queue: 2000}, false, false},
		{Trial{Seconds: 1, Rate: 1e6, Queue: 2000, Behind: 400 * time.Millisecond}, false, false},
		{Trial{Seconds: 1, Rate: 1e6, Queue: 2000, Behind: 600 * time.Millisecond}, true, false},
		{Trial{Seconds: 1, Rate: 1e6, Queue: 2000, Lag: 2 * time.Millisecond}, false, false}, // nothing is lost
		{Trial{Seconds: 1, Rate: 1e6, Queue: 2000, Lag: 2 * time.Millisecond, Lost: 1}, false, true},
		{Trial{Seconds: 1, Rate: 1e6, Queue: 2000, Lag: time.Millisecond / 2, Lost: 1}, false, false},
		{Trial{Seconds: 1, Rate: 1e6, Queue: 2000, Queues: 4, Lag: 2 * time.Millisecond, Lost: 1}, false, false},
	} {
		if tt.t.Overrun() != tt.overrun || tt.t.Stalled() != tt.stalled {
			t.Errorf("%+v: overrun %v, stalled %v", tt.t.Lag, tt.t.Overrun(), tt.t.Stalled())
		}
	}
}
