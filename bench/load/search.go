package load

import (
	"errors"
	"fmt"
	"time"
)

// Tester offers a rate in packets per second for a time. Long trials may be made of several rounds.
type Tester func(rate float64, d time.Duration) (*Trial, error)

// Search finds the highest rate that meets a goal: binary search with short trials, then with trials of
// full duration, whose result is confirmed by repeated trials (RFC 2544 section 26.1; the widening steps
// are those of MLRsearch, draft-ietf-bmwg-mlrsearch).
//
// A lossy trial is repeated once, so that a single disturbance does not decide. A trial in which the
// generator itself stalled for long enough to cause losses is repeated up to maxStalls times.
type Search struct {
	Test       Tester
	Trial      time.Duration // of a trial of full duration
	Resolution float64       // relative width at which the search ends
	Confirm    int           // trials of full duration that must meet the goal at the result
	Max        float64       // highest rate to offer
	Time       time.Duration // after which the search goes no further, and confirms the highest rate that passed; 0: no limit

	trials int
	now    func() time.Time // for tests; nil: time.Now
}

const (
	// shortest is the share of Search.Trial of the first trials.
	shortest = 0.1
	// tolerated is the number of trials that may fail at a rate that passes.
	tolerated = 1
	maxStalls = 3
	// maxTrials limits a search on a host that gives different results each time.
	maxTrials = 400
	// lowest is the share of Search.Max below which no rate is tried.
	lowest = 1e-4
)

// Limit is the cause of a rate's limit.
type Limit string

const (
	ByRouter    Limit = "router"
	ByGenerator Limit = "generator" // it could not offer more
	ByMax       Limit = "max-rate"  // the search did not go further
)

// Point is the result of a search.
type Point struct {
	Rate      float64  // packets per second; 0: none meets the goal
	Confirmed []*Trial // the trials of full duration at this rate that met the goal
	Failed    int      // trials there that did not
	Limit     Limit
	Width     float64 // relative distance to the lowest rate that failed: how precise Rate is; 1: no higher one was tried
	Ended     bool    // by Search.Time; without confirming trials, shorter ones met the goal
}

// ErrNoConvergence is the error of a search whose trials contradict each other.
var ErrNoConvergence = errors.New("the search did not converge: the host is too busy; isolate the cores, or measure a fixed rate")

// Find returns the highest rate with a loss of at most goal. It begins at a guess. When its time is over,
// it returns the highest rate that passed so far, with the trials that confirm it or not.
func (s *Search) Find(goal, guess float64) (*Point, error) {
	if s.now == nil {
		s.now = time.Now
	}
	s.trials = 0
	start := s.now()
	b := bounds{max: s.Max, min: s.Max * lowest, guess: guess, resolution: s.Resolution, step: s.Resolution}
	for d := s.short(); ; {
		rate, done := b.next()
		over := s.Time > 0 && s.now().Sub(start) >= s.Time
		switch {
		case over:
			return s.end(&b, goal)
		case done && rate == 0:
			return &Point{Limit: b.limit}, nil
		case done:
			p, err := s.meets(rate, goal, s.Trial, s.Confirm)
			if err != nil {
				return nil, err
			}
			if p.Rate > 0 {
				b.describe(p)
				return p, nil
			}
			// From here on, short trials would repeat their error.
			d = s.Trial
			b.fail(rate, p.Limit)
			b.widen()
		default:
			p, err := s.meets(rate, goal, d, 1)
			if err != nil {
				return nil, err
			}
			if p.Rate > 0 {
				b.pass(rate)
			} else {
				b.fail(rate, p.Limit)
			}
		}
	}
}

// end returns the result of a search whose time is over.
func (s *Search) end(b *bounds, goal float64) (*Point, error) {
	p := &Point{}
	if b.passed > 0 {
		var err error
		if p, err = s.meets(b.passed, goal, s.Trial, s.Confirm); err != nil {
			return nil, err
		}
		p.Rate = b.passed
	}
	b.describe(p)
	p.Ended = true
	return p, nil
}

// describe sets cause and width of a result.
func (b *bounds) describe(p *Point) {
	switch {
	case p.Rate >= b.max:
		p.Limit = ByMax
	case b.failed > 0:
		p.Limit, p.Width = b.limit, (b.failed-p.Rate)/b.failed
	default:
		p.Width = 1
	}
}

func (s *Search) short() time.Duration {
	return time.Duration(shortest * float64(s.Trial))
}

// meets offers a rate until passes trials have met the goal, or more than tolerated ones have not. Then
// the rate of the point is 0.
func (s *Search) meets(rate, goal float64, d time.Duration, passes int) (*Point, error) {
	p := &Point{Rate: rate}
	for len(p.Confirmed) < passes {
		t, err := s.test(rate, d)
		if err != nil {
			return nil, err
		}
		if !t.Overrun() && t.Loss() <= goal {
			p.Confirmed = append(p.Confirmed, t)
			continue
		}
		p.Limit = ByRouter
		if t.Overrun() {
			p.Limit = ByGenerator
		}
		if p.Failed++; p.Failed > tolerated {
			p.Rate = 0
			return p, nil
		}
	}
	return p, nil
}

// test runs a trial, again if the generator stalled.
func (s *Search) test(rate float64, d time.Duration) (t *Trial, err error) {
	for range 1 + maxStalls {
		if s.trials++; s.trials > maxTrials {
			return nil, ErrNoConvergence
		}
		if t, err = s.Test(rate, d); err != nil {
			return nil, fmt.Errorf("offer %.3f Mpps: %w", rate/1e6, err)
		}
		if t.Overrun() || !t.Stalled() {
			break
		}
	}
	return t, nil
}

// bounds is an interval of rates: the highest one that passed and the lowest one that failed; 0: none yet.
type bounds struct {
	max, min   float64
	guess      float64
	resolution float64

	passed, failed float64
	limit          Limit   // cause of the failure
	step           float64 // relative, of the search outside of the interval
}

// next returns the next rate to try, or, if done, the result; 0: none.
func (b *bounds) next() (rate float64, done bool) {
	switch {
	case b.passed == 0 && b.failed == 0:
		return min(max(b.guess, b.min), b.max), false
	case b.passed >= b.max:
		return b.passed, true
	case b.failed == 0:
		b.step *= 2
		return min(b.passed*(1+b.step), b.max), false
	case b.passed == 0:
		if b.failed <= b.min {
			return 0, true
		}
		b.step = min(2*b.step, 0.5)
		return max(b.failed*(1-b.step), b.min), false
	case b.failed-b.passed <= b.resolution*b.failed*(1+1e-9):
		return b.passed, true
	}
	return (b.passed + b.failed) / 2, false
}

func (b *bounds) pass(rate float64) { b.passed = max(b.passed, rate) }

func (b *bounds) fail(rate float64, cause Limit) {
	if b.failed == 0 || rate < b.failed {
		b.failed, b.limit = rate, cause
	}
	if b.passed >= rate {
		b.passed = 0
	}
}

// widen restarts the search below the interval, whose lower end did not hold.
func (b *bounds) widen() { b.passed, b.step = 0, b.resolution/2 }
