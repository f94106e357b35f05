package testbed

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/warproute/warproute/bench/load"
)

// ErrBusy is the error of a measurement whose trials contradict each other.
var ErrBusy = errors.New("trials contradict each other: the host is too busy; isolate the cores")

// Subject is a verified router to measure under load.
type Subject struct {
	Summary
	Meter    *Meter // of the GPUs; nil: none
	Prepared int    // packets of a worker in a round; 0: they are copied
	// Open returns a testbed whose queues have their packets, and how many of them each receives in its
	// life; 0: any number.
	Open func() (b *Testbed, packets int, err error)
}

// Tester returns trials of the subject. A testbed receives prepared packets once, so a trial consists of
// as many rounds as it needs, each with a new testbed: new memory, new SAs, and packets written again
// before the load begins.
func (s *Subject) Tester(a load.Arrival, seed uint64) load.Tester {
	return func(rate float64, d time.Duration) (*load.Trial, error) {
		m, err := s.Mix(a, rate, 0, d, &seed)
		if err != nil {
			return nil, err
		}
		return m.Main, nil
	}
}

// Mixed is the result of packets of a subject, and of express packets that were offered at the same time.
type Mixed struct {
	Main, Express *load.Trial // Express is nil without express packets
	Missed        uint64      // packets of the first of several lanes that were sent after its deadline
	Sorted        uint64      // all packets of this lane; 0: there is one lane
}

func (m *Mixed) join(later *Mixed) {
	m.Main.Join(later.Main)
	if later.Express != nil {
		if m.Express == nil {
			m.Express = &load.Trial{}
		}
		m.Express.Join(later.Express)
	}
	m.Missed, m.Sorted = m.Missed+later.Missed, m.Sorted+later.Sorted
}

// patience limits the rounds of a trial to so many times its duration: preparing packets takes longer than
// they last. A trial that ends early has fewer seconds.
const patience = 5

// Mix offers a rate, and express packets at another one unless that is 0, in one or more rounds. Each round
// uses the next seed.
func (s *Subject) Mix(a load.Arrival, rate, express float64, d time.Duration, seed *uint64) (*Mixed, error) {
	trial := &Mixed{Main: &load.Trial{}}
	start := time.Now()
	for left := d; left > 0 && (left == d || time.Since(start) < patience*d); *seed++ {
		r, took, err := s.round(a, rate, express, left, *seed)
		if err != nil {
			return nil, err
		}
		trial.join(r)
		left -= took
	}
	return trial, nil
}

// FullLoad returns a trial at a rate that the router does not keep up with, by 1 % or more, or that the emulated NICs do not
// offer. At a higher rate the router does not carry more. It begins with more than the NICs can offer, and then offers half more
// than they delivered: with prepared packets, a trial at a much higher rate would be short.
func (s *Subject) FullLoad(d time.Duration, seed *uint64) (*load.Trial, error) {
	const (
		most  = 200e6 // packets per second
		first = 20 * time.Millisecond
		tries = 12
		// A pause of a core costs some packets at any rate.
		fullLoss = 0.01
		// A pause in one trial may cost more. So the router is full if a higher rate does not make it carry more by this factor.
		more = 1.1
	)
	var full *load.Trial
	rate := most
	for range tries {
		took := d
		if rate == most {
			took = min(d, first)
		}
		m, err := s.Mix(load.Arrival{}, rate, 0, took, seed)
		if err != nil {
			return nil, fmt.Errorf("measure full load: offer %.3f Mpps: %w", rate/1e6, err)
		}
		t := m.Main
		switch carried := t.Carried(); {
		case full != nil && carried < more*full.Carried():
			return full, nil
		case carried < rate/100:
			rate /= 10
		case rate > 2*carried:
			rate = 1.5 * carried
		case t.Overrun():
			return t, nil
		case t.Loss() >= fullLoss:
			full, rate = t, min(1.5*rate, most)
		default:
			full, rate = nil, min(2*rate, most)
		}
	}
	if full != nil {
		return full, nil
	}
	return nil, fmt.Errorf("measure full load: %d %w", tries, ErrBusy)
}

// round offers a load for a time, or for as long as the packets last.
func (s *Subject) round(a load.Arrival, rate, express float64, d time.Duration, seed uint64) (m *Mixed, took time.Duration, err error) {
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
	streams := []stream{{b.In, b.Out, 0, rate}}
	if express > 0 {
		frames := expressFrames()
		for _, q := range b.Express {
			q.Play(frames, -1)
		}
		streams = append(streams, stream{b.Express, b.Express, ExpressPort, express})
	}
	if m, err = b.offer(streams, a, d, seed, s.Meter); err == nil && m.Main.Engine != s.Engine {
		err = fmt.Errorf("engine %s at the end, not %s: it failed", m.Main.Engine, s.Engine)
	}
	return m, d, err
}
