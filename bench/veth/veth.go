// Package veth compares routers on one core, with 60-byte frames through two veth pairs, alternately in
// one run.
//
//	core 0                                       core 1
//	client ── live frames ──► lan0   router   wan0 ──► server: count and drop
//
// Sender and counter run on core 0, the router on core 1. NAPI of the ports runs where the router is
// faster: in the sender's softirq, or in a thread on the router's core.
//
// A router is verified before it is timed: a forwarded frame must have the right addresses, TTL and
// checksum.
package veth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/bench/xdpgen"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/lab"
)

const (
	senderCore = 0
	routerCore = 1
	frameLen   = 60 // bytes without FCS: the shortest
	flows      = 64
)

// Contender is a router to measure.
type Contender struct {
	Name  string
	Bound string // limiting factor
	// Threaded runs lan0's NAPI in a thread on the router's core. Otherwise it runs in the sender's
	// softirq, unless the router configures it.
	Threaded bool
	// Forwards is false if frames are counted at lan0. Then Start can be nil.
	Forwards bool
	// Rewrites is true if frames are routed, not bridged.
	Rewrites bool
	// Skip excludes the router.
	Skip bool
	// Start starts the router between lan0 and wan0 and waits until it forwards.
	Start func(*lab.Topology) (stop func() error, err error)
}

// Options are the rounds of a measurement.
type Options struct {
	Rounds   int
	Duration time.Duration // of a round
}

// Result is the rates of a contender in Mpps, one per round, in ascending order.
type Result struct {
	Name   string    `json:"name"`
	Bound  string    `json:"bound"`
	Rounds []float64 `json:"rounds_mpps"`
	Error  string    `json:"error,omitempty"` // of a contender that was not measured
}

// Median returns the rate of the median round.
func (r *Result) Median() float64 {
	if len(r.Rounds) == 0 {
		return 0
	}
	return r.Rounds[len(r.Rounds)/2]
}

// Run measures the contenders alternately. The error of one is in its result. The distance of the cores
// is measured in every round, because a virtual machine's cores can move. When ctx ends, Run returns
// after the current measurement.
func Run(ctx context.Context, o Options, contenders []Contender) ([]*Result, Distance, error) {
	var distance Distance
	cpus, err := affinity.CPUs()
	if err != nil {
		return nil, distance, err
	}
	if !slices.Contains(cpus, senderCore) || !slices.Contains(cpus, routerCore) {
		return nil, distance, fmt.Errorf("compare routers: this needs cores %d and %d, and may run on %v", senderCore, routerCore, cpus)
	}
	results := make([]*Result, len(contenders))
	for i, c := range contenders {
		results[i] = &Result{Name: c.Name, Bound: c.Bound}
	}
	for range o.Rounds {
		if err := distance.measure(); err != nil {
			return nil, distance, err
		}
		for i, c := range contenders {
			if c.Skip || results[i].Error != "" {
				continue
			}
			if ctx.Err() != nil {
				return nil, distance, fmt.Errorf("compare routers: %w", context.Cause(ctx))
			}
			mpps, err := round(o, c)
			if err != nil {
				results[i].Error = err.Error()
				continue
			}
			results[i].Rounds = append(results[i].Rounds, mpps)
		}
	}
	for _, r := range results {
		slices.Sort(r.Rounds)
	}
	return results, distance, nil
}

// round measures one contender once, in new namespaces.
func round(o Options, c Contender) (mpps float64, err error) {
	top, err := lab.NewTopology(lab.VethOptions{})
	if err != nil {
		return 0, err
	}
	defer top.Close()
	b := &topology{Topology: top}
	defer b.close()
	if err := b.prepare(); err != nil {
		return 0, err
	}
	if c.Start != nil {
		stop, err := c.Start(top)
		if err != nil {
			return 0, fmt.Errorf("start %s: %w", c.Name, err)
		}
		defer func() {
			if e := stop(); err == nil && e != nil {
				err = fmt.Errorf("stop %s: %w", c.Name, e)
			}
		}()
	}
	if c.Threaded {
		if err := b.thread(top.Router, lab.LAN, routerCore, 0); err != nil {
			return 0, err
		}
	}
	if c.Forwards {
		if err := b.verify(c.Rewrites); err != nil {
			return 0, fmt.Errorf("verify %s: %w", c.Name, err)
		}
	}
	count, err := b.counter(c.Forwards)
	if err != nil {
		return 0, err
	}
	return b.measure(o.Duration, count)
}

// measure returns the rate of the counter while the sender runs.
func (b *topology) measure(d time.Duration, count *xdpgen.Program) (mpps float64, err error) {
	sender, err := b.sender()
	if err != nil {
		return 0, err
	}
	defer sender.Close()
	sent := make(chan error, 1)
	go func() {
		sent <- b.Client.Do(func() error {
			restore, err := affinity.Pin(senderCore)
			if err != nil {
				return err
			}
			defer restore()
			return sender.Run()
		})
	}()
	time.Sleep(200 * time.Millisecond)
	start := time.Now()
	before, err := count.Frames()
	time.Sleep(d)
	after, err2 := count.Frames()
	elapsed := time.Since(start)
	sender.Stop()
	for _, e := range []error{<-sent, err, err2} {
		if e != nil {
			return 0, e
		}
	}
	if after == before {
		return 0, fmt.Errorf("no frame arrived in %v", elapsed)
	}
	return float64(after-before) / elapsed.Seconds() / 1e6, nil
}
