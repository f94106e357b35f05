package ipsec

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
)

// ChoiceOptions are the parameters of a comparison of engine auto with the fixed engines.
type ChoiceOptions struct {
	Options           // Suite, Sizes and Engine have no meaning
	Suites  []string  //
	Mixes   [][]int   // sizes of packets, round-robin in each
	Loads   []float64 // shares of the best fixed engine's rate at full load
	Rounds  int       // of each load: a trial of auto, and one of the fixed engine; 0: one
	Trial   time.Duration
	Fixed   []string // cpu, and gpu if there is one
}

// ChoiceResult is the comparison for one suite and one mix of sizes.
type ChoiceResult struct {
	testbed.Summary
	Suite     string             `json:"cipher_suite"`  //
	Direction string             `json:"direction"`     // encrypt or decrypt
	Sizes     []int              `json:"inner_bytes"`   // round-robin
	SAs       int                `json:"sas"`           //
	Trial     float64            `json:"trial_seconds"` //
	Fixed     map[string]float64 `json:"fixed_mpps"`    // at full load, by engine
	Best      string             `json:"best"`          // fixed engine with the highest rate
	Points    []ChoicePoint      `json:"choice_points"` // in the order of the loads
}

// ChoicePoint is the result of a load: that of the round with the median ratio. Latencies are from NIC to NIC.
type ChoicePoint struct {
	Load    float64      `json:"load"`              // offered packets divided by the best fixed engine's at full load
	Offered float64      `json:"offered_mpps"`      //
	Mpps    float64      `json:"auto_mpps"`         // delivered with engine auto
	Best    float64      `json:"best_mpps"`         // delivered with the best fixed engine at this load
	Ratio   float64      `json:"ratio"`             // auto_mpps divided by best_mpps
	Ratios  []float64    `json:"ratios"`            // of all rounds, in their order
	Auto    load.Latency `json:"auto_us"`           //
	Fixed   load.Latency `json:"best_us"`           // of the best fixed engine
	Overrun bool         `json:"overrun,omitempty"` // in one or more rounds, the emulated NICs could not offer the load
}

// Choice verifies and compares each suite with each mix. Both engines are measured at the same offered rate, alternately, at shares of the
// best fixed engine's rate at full load.
func Choice(o ChoiceOptions, progress func(format string, args ...any)) (all []*ChoiceResult, err error) {
	for _, o.Suite = range o.Suites {
		for _, o.Sizes = range o.Mixes {
			r, err := o.compare(progress)
			if err != nil {
				return nil, fmt.Errorf("%s, %v bytes: %w", o.Suite, o.Sizes, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// compare measures one suite with one mix.
func (o ChoiceOptions) compare(progress func(string, ...any)) (*ChoiceResult, error) {
	auto := o.Testbed
	engine := auto.Auto()
	fixed := map[string]testbed.Config{"cpu": o.Testbed, "gpu": o.Testbed}
	for name, c := range fixed {
		c.Choose, c.Chunks = false, 1
		if c.GPUs = 0; name == "gpu" {
			c.GPUs, c.Chunks = max(1, auto.GPUs), o.Testbed.Chunks
		}
		fixed[name] = c
	}
	o.Engine, o.Testbed = engine, auto
	s, t, err := openLoad(&o.Options)
	if err != nil {
		return nil, err
	}
	use := func(engine string, c testbed.Config) {
		c.Prepared = t.Testbed.Prepared
		s.Engine, t.Engine, t.Testbed = engine, engine, c
	}
	r := &ChoiceResult{
		Summary: s.Summary, Suite: o.Suite, Direction: names[o.Direction], Sizes: o.Sizes, SAs: o.SAs, Trial: o.Trial.Seconds(),
		Fixed: map[string]float64{}, Points: []ChoicePoint{},
	}
	seed := o.Seed
	for _, name := range o.Fixed {
		progress("%s, %v bytes: %s at full load", o.Suite, o.Sizes, name)
		use(name, fixed[name])
		full, err := s.FullLoad(o.Trial, &seed)
		if err != nil {
			return nil, fmt.Errorf("engine %s: %w", name, err)
		}
		if r.Fixed[name] = full.Carried() / 1e6; r.Fixed[name] > r.Fixed[r.Best] {
			r.Best = name
		}
	}
	for _, share := range o.Loads {
		rate := 1e6 * r.Fixed[r.Best] * share
		progress("%s, %v bytes: offer %.3f Mpps", o.Suite, o.Sizes, rate/1e6)
		var rounds []ChoicePoint
		for range max(1, o.Rounds) {
			use(engine, auto)
			a, err := s.Mix(load.Arrival{}, rate, 0, o.Trial, &seed)
			if err != nil {
				return nil, fmt.Errorf("engine auto, load %v: %w", share, err)
			}
			use(r.Best, fixed[r.Best])
			b, err := s.Mix(load.Arrival{}, rate, 0, o.Trial, &seed)
			if err != nil {
				return nil, fmt.Errorf("engine %s, load %v: %w", r.Best, share, err)
			}
			rounds = append(rounds, choicePoint(a.Main, b.Main))
		}
		p := medianPoint(rounds)
		p.Load, p.Offered = share, rate/1e6
		r.Points = append(r.Points, p)
	}
	return r, nil
}

// choicePoint compares a trial of engine auto with one of a fixed engine.
func choicePoint(auto, fixed *load.Trial) ChoicePoint {
	p := ChoicePoint{
		Mpps: auto.Carried() / 1e6, Best: fixed.Carried() / 1e6,
		Auto: load.NewLatency(&auto.Latency, auto.Longest), Fixed: load.NewLatency(&fixed.Latency, fixed.Longest), Overrun: auto.Overrun() || fixed.Overrun(),
	}
	if p.Best > 0 { // else neither has carried a packet, or auto alone: the ratio is 0
		p.Ratio = p.Mpps / p.Best
	}
	return p
}

// medianPoint sorts rounds by their ratios, and returns the one with the median ratio, of an even number the lower of the middle two, with the
// ratios of all in their order. Overrun is set if it was in any round.
func medianPoint(rounds []ChoicePoint) ChoicePoint {
	ratios, overrun := make([]float64, 0, len(rounds)), false
	for _, p := range rounds {
		ratios, overrun = append(ratios, p.Ratio), overrun || p.Overrun
	}
	slices.SortFunc(rounds, func(a, b ChoicePoint) int { return cmp.Compare(a.Ratio, b.Ratio) })
	p := rounds[(len(rounds)-1)/2]
	p.Ratios, p.Overrun = ratios, overrun
	return p
}
