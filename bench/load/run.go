package load

import (
	"errors"
	"fmt"
	"time"
)

// Options are the parameters of a measurement.
type Options struct {
	Arrival    Arrival
	Rates      []float64     // packets per second to measure, without a search
	Shares     []float64     // of NDR to measure after a search
	Trial      time.Duration // of a trial of full duration, without warm-up
	Resolution float64       // of the search, relative
	Confirm    int           // trials that confirm NDR and PDR
	Max        float64       // highest rate in packets per second; 0: highest
	SearchTime time.Duration // of the search, half of it for each of NDR and PDR; 0: no limit
}

// DefaultShares are the loads of a search.
var DefaultShares = []float64{0.1, 0.3, 0.5, 0.7, 0.9, 1}

const (
	// highest is more than any emulated NIC can offer.
	highest = 200e6
	// partial is the loss of PDR.
	partial = 0.005
	// guessTime is the duration of the trial at the highest rate.
	guessTime = 50 * time.Millisecond
)

// Check returns an error for invalid options.
func (o *Options) Check() error {
	switch {
	case o.Trial <= 0:
		return fmt.Errorf("a trial of %v: write a positive duration", o.Trial)
	case !(o.Resolution >= 1e-4 && o.Resolution <= 0.5): // also rejects NaN
		return fmt.Errorf("a resolution of %v: 0.0001 to 0.5 are possible", o.Resolution)
	case o.Confirm < 1 || o.Confirm > 100:
		return fmt.Errorf("%d confirming trials: 1 to 100 are possible", o.Confirm)
	case o.SearchTime < 0:
		return fmt.Errorf("a search of %v: write a positive duration, or 0 for no limit", o.SearchTime)
	case o.Max != 0 && !valid(o.Max):
		return fmt.Errorf("a highest rate of %v packets per second: 1 to 1G are possible", o.Max)
	}
	for _, r := range o.Rates {
		if !valid(r) {
			return fmt.Errorf("a rate of %v packets per second: 1 to 1G are possible", r)
		}
	}
	for _, s := range o.Shares {
		if !(s > 0 && s <= 2) {
			return fmt.Errorf("a load of %v %% of NDR: 1 to 200 are possible", 100*s)
		}
	}
	if len(o.Rates)+len(o.Shares) == 0 {
		return errors.New("no loads")
	}
	return nil
}

func valid(rate float64) bool { return rate >= 1 && rate <= 1e9 }

// Run searches NDR and PDR, then measures the loads; or it measures the given rates. progress gets a line
// before each step.
func Run(o Options, test Tester, progress func(format string, args ...any)) (*Result, error) {
	r := &Result{Arrival: o.Arrival.String(), Trial: o.Trial.Seconds(), Loads: []Step{}, Unmeasured: []string{}}
	if len(o.Rates) > 0 {
		for _, rate := range o.Rates {
			if err := r.measure(o, test, rate, 0, "", progress); err != nil {
				return nil, err
			}
		}
		return r, nil
	}
	rate, of, err := r.search(o, test, progress)
	if err != nil {
		return nil, err
	}
	for _, share := range o.Shares {
		if err := r.measure(o, test, rate*share, share, of, progress); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// measure adds the result of a load.
func (r *Result) measure(o Options, test Tester, rate, share float64, of string, progress func(string, ...any)) error {
	progress("offer %.3f Mpps for %v", rate/1e6, o.Trial)
	t, err := test(rate, o.Trial)
	if err != nil {
		return fmt.Errorf("offer %.3f Mpps: %w", rate/1e6, err)
	}
	r.Ring = t.Queue
	r.Loads = append(r.Loads, newStep(t, share, of))
	return nil
}

// search finds NDR and PDR, and returns the rate that the loads refer to.
func (r *Result) search(o Options, test Tester, progress func(string, ...any)) (rate float64, of string, err error) {
	r.Resolution = o.Resolution
	if o.Max == 0 {
		o.Max = highest
	}
	progress("offer %.0f Mpps for %v", o.Max/1e6, guessTime)
	first, err := test(o.Max, min(guessTime, o.Trial))
	if err != nil {
		return 0, "", fmt.Errorf("offer %.3f Mpps: %w", o.Max/1e6, err)
	}
	r.Ring = first.Queue
	most := first.Carried()
	r.Max = most / 1e6
	s := Search{
		Trial: o.Trial, Resolution: o.Resolution, Confirm: o.Confirm, Max: o.Max, Time: o.SearchTime / 2,
		Test: func(rate float64, d time.Duration) (*Trial, error) {
			progress("search: offer %.3f Mpps for %v", rate/1e6, d)
			return test(rate, d)
		},
	}
	ndr, err := s.Find(0, most)
	if err != nil {
		return 0, "", fmt.Errorf("find NDR: %w", err)
	}
	r.NDR = newFound(ndr, 0, s.trials)
	pdr, err := s.Find(partial, max(ndr.Rate, most))
	if err != nil {
		return 0, "", fmt.Errorf("find PDR: %w", err)
	}
	if pdr.Rate < ndr.Rate { // within the resolution, or of a busy host: no loss is less than little loss
		pdr = ndr
	}
	r.PDR = newFound(pdr, partial, s.trials)
	switch {
	case ndr.Rate > 0:
		return ndr.Rate, "ndr", nil
	case pdr.Rate > 0:
		return pdr.Rate, "pdr", nil
	case pdr.Ended:
		return 0, "", fmt.Errorf("every rate that was tried in %v lost packets: search longer, isolate the cores, or measure a fixed rate", o.SearchTime)
	}
	return 0, "", fmt.Errorf("even %.6f Mpps lose packets: isolate the cores, or measure a fixed rate", o.Max*lowest/1e6)
}
