package choice

import (
	"fmt"
	"math"
	"testing"
)

// thresholds are the fixed policies that the learned choice is compared with: never the CPU, up to always.
var thresholds = []threshold{0, 8, 16, 32, 64, 128, simMaxPackets}

// scenario is a load on a host.
type scenario struct {
	host  host
	class Class
	bytes int
	share float64 // of the capacity of the better engine
}

func (s scenario) String() string {
	return fmt.Sprintf("%s, class %d, %d bytes, load %.2f", s.host.name, s.class, s.bytes, s.share)
}

func scenarios() (all []scenario) {
	type traffic struct {
		class Class
		bytes int
	}
	for _, h := range []host{plainHost(), slowCPU(), slowGPU(), sharedGPU()} {
		for _, t := range []traffic{{Forward, 64}, {AEAD, 64}, {AEAD, 1408}, {AEAD, 0}, {HMAC, 64}, {HMAC, 1408}, {HMAC, 0}} {
			for _, share := range []float64{0.05, 0.2, 0.5, 0.9, 1.3} {
				all = append(all, scenario{h, t.class, t.bytes, share})
			}
		}
	}
	for _, t := range []traffic{{AEAD, 1408}, {HMAC, 64}} { // seconds of time
		for _, share := range []float64{0.15, 0.9, 1.3} {
			all = append(all, scenario{timeSlicedGPU(), t.class, t.bytes, share})
		}
	}
	return all
}

// run returns the cost of a policy: the time per packet under overload, else the geometric mean of the mean
// and the 99th percentile of latency, both in nanoseconds. A policy that loses packets costs infinitely much.
func (s scenario) run(p policy) float64 {
	l := load{class: s.class, bytes: s.bytes}
	cpu, gpu := s.host.capacity(&l)
	l.rate = s.share * max(cpu, gpu)
	length, from := 40e6, 10e6
	switch {
	case s.host.pause > 0:
		length, from = 1000e6, 200e6
		if s.share < 0.2 { // an exploration may meet a time slice: one in seconds
			length, from = 5000e6, 1000e6
		}
	case s.class == Forward:
		length, from = 20e6, 8e6
	}
	r := simulate(s.host, l, p, length, from)
	switch {
	case s.share > 1:
		return 1 / r.rate
	case s.host.pause == 0 && r.rate < 0.98*l.rate:
		return math.Inf(1)
	}
	return math.Sqrt(r.mean * r.p99)
}

// The best fixed threshold is another one in each scenario; the learned choice comes close to all of them.
func TestChoiceComesCloseToBestThresholdOfEachScenario(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: simulates for a minute")
	}
	const near, far = 1.05, 1.25
	all := scenarios()
	costs := make([]float64, len(all))        // of the learned choice ÷ the best threshold's
	fixed := make([]float64, len(thresholds)) // largest of each threshold
	within := make([]int, len(thresholds)+1)  // scenarios within near of the best; the last is the learned choice's
	for i, s := range all {
		best := math.Inf(1)
		each := make([]float64, len(thresholds))
		for j, p := range thresholds {
			each[j] = s.run(p)
			best = min(best, each[j])
		}
		for j := range thresholds {
			fixed[j] = max(fixed[j], each[j]/best)
			if each[j] <= near*best {
				within[j]++
			}
		}
		costs[i] = s.run(learned{New()}) / best
		switch {
		case costs[i] <= near:
			within[len(thresholds)]++
		default:
			t.Logf("%v: %.2f times the best threshold's cost", s, costs[i])
		}
		if costs[i] > far {
			t.Errorf("%v: %.2f times the best threshold's cost, want at most %.2f", s, costs[i], far)
		}
	}
	for j, p := range thresholds {
		t.Logf("threshold %d: within 5 %% of the best in %d of %d scenarios, at worst %.1f times its cost", p, within[j], len(all), fixed[j])
	}
	if n := within[len(thresholds)]; n < len(all)*85/100 {
		t.Errorf("within 5 %% of the best in %d of %d scenarios only", n, len(all))
	} else {
		t.Logf("learned: within 5 %% of the best in %d of %d scenarios", n, len(all))
	}
}
