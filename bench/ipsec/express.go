package ipsec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane/lane"
)

// ExpressOptions are the parameters of a measurement of express packets beside those of tunnels, the bulk.
type ExpressOptions struct {
	Options
	Lanes   []testbed.Lanes
	Loads   []float64 // of bulk, as shares of its rate at full load
	Rate    float64   // of express packets per second
	Arrival load.Arrival
	Trial   time.Duration
}

// ExpressResult is the result of such a measurement. Latencies are from NIC to NIC.
type ExpressResult struct {
	testbed.Summary
	Suite     string         `json:"cipher_suite"`   //
	Direction string         `json:"direction"`      // encrypt or decrypt
	Sizes     []int          `json:"inner_bytes"`    // of bulk, round-robin
	SAs       int            `json:"sas"`            //
	Arrival   string         `json:"arrival"`        // constant, poisson or burst:N
	Trial     float64        `json:"trial_seconds"`  //
	Full      float64        `json:"full_mpps"`      // bulk that one lane delivers without express packets, at full load; the median of 3 trials
	NIC       bool           `json:"full_by_nic"`    // the emulated NICs could not offer more than full_mpps
	Deadline  float64        `json:"deadline_us"`    // of express packets
	Points    []ExpressPoint `json:"express_points"` // by lanes, then by load
	DMA       string         `json:"dma"`            // copy: a core copies packets; none: they are in memory before they arrive
}

// ExpressPoint is the result of a load.
type ExpressPoint struct {
	Lanes   testbed.Lanes `json:"lanes"`             // default, queues or none
	Load    float64       `json:"load"`              // bulk that was offered, divided by full_mpps
	Offered float64       `json:"offered_mpps"`      // bulk
	Mpps    float64       `json:"delivered_mpps"`    // bulk
	Kept    float64       `json:"kept"`              // delivered bulk divided by the offered, up to full_mpps
	Bulk    load.Latency  `json:"bulk_us"`           //
	Express load.Latency  `json:"express_us"`        //
	Rate    float64       `json:"express_mpps"`      // delivered
	Lost    float64       `json:"express_loss"`      // share of the offered express packets
	Late    float64       `json:"late"`              // share of the offered express packets that were lost or later than the deadline, from NIC to NIC
	Missed  *float64      `json:"missed,omitempty"`  // share of the express packets whose chunk missed the deadline by the router's counters; absent with one lane
	Overrun bool          `json:"overrun,omitempty"` // the emulated NICs could not offer the load
}

// Express verifies a gateway, measures its rate at full load, then express packets beside several loads.
func Express(o ExpressOptions, meter *testbed.Meter, progress func(format string, args ...any)) (*ExpressResult, error) {
	o.Testbed.Express, o.Testbed.Lanes = true, testbed.OneLane
	s, t, err := openLoad(&o.Options)
	if err != nil {
		return nil, err
	}
	s.Meter = meter
	for _, t.Testbed.Lanes = range o.Lanes {
		n, err := t.verifyExpress()
		if err != nil {
			return nil, fmt.Errorf("verify express packets, lanes %s: %w", t.Testbed.Lanes, err)
		}
		s.Verified += n
	}
	r := &ExpressResult{
		Summary: s.Summary, Suite: o.Suite, Direction: names[o.Direction], Sizes: o.Sizes, SAs: o.SAs,
		Arrival: o.Arrival.String(), Trial: o.Trial.Seconds(), Points: []ExpressPoint{},
	}
	r.Lanes = "" // each point has its own
	deadline := lane.Default()[0].Deadline
	r.Deadline = float64(deadline) / 1e3
	seed := o.Seed
	progress("full load for %v", o.Trial)
	t.Testbed.Lanes = testbed.OneLane
	var fulls []*load.Trial
	for range 3 {
		full, err := s.FullLoad(o.Trial, &seed)
		if err != nil {
			return nil, err
		}
		fulls = append(fulls, full)
	}
	slices.SortFunc(fulls, func(a, b *load.Trial) int { return cmp.Compare(a.Carried(), b.Carried()) })
	rate := fulls[1].Carried()
	r.Full, r.NIC = rate/1e6, fulls[1].Overrun()
	for _, t.Testbed.Lanes = range o.Lanes {
		for _, share := range o.Loads {
			progress("lanes %s: %.3f Mpps and %.3f Mpps of express for %v", t.Testbed.Lanes, rate*share/1e6, o.Rate/1e6, o.Trial)
			m, err := s.Mix(o.Arrival, rate*share, o.Rate, o.Trial, &seed)
			if err != nil {
				return nil, fmt.Errorf("lanes %s, load %v: %w", t.Testbed.Lanes, share, err)
			}
			r.Points = append(r.Points, newExpressPoint(t.Testbed.Lanes, share, rate, deadline, m))
		}
	}
	return r, nil
}

func newExpressPoint(lanes testbed.Lanes, share, full float64, deadline time.Duration, m *testbed.Mixed) ExpressPoint {
	bulk, x := m.Main, m.Express
	p := ExpressPoint{
		Lanes: lanes, Load: share, Offered: full * share / 1e6, Mpps: bulk.Carried() / 1e6, Kept: bulk.Carried() / (full * min(share, 1)),
		Bulk: load.NewLatency(&bulk.Latency, bulk.Longest), Express: load.NewLatency(&x.Latency, x.Longest),
		Rate: x.Carried() / 1e6, Lost: x.Loss(), Late: 1 - float64(x.Latency.CountBelow(uint64(deadline)))/float64(max(x.Offered, 1)),
		Overrun: bulk.Overrun() || x.Overrun(),
	}
	if m.Sorted > 0 {
		missed := float64(m.Missed) / float64(m.Sorted)
		p.Missed = &missed
	}
	return p
}

// verifyExpress verifies express packets without others.
func (t *traffic) verifyExpress() (int, error) {
	b, err := t.newTestbedPrepared(t.Testbed.Workers, 0, t.Window, 0)
	if err != nil {
		return 0, err
	}
	n, err := b.VerifyExpress()
	return n, errors.Join(err, b.Close())
}
