package lookup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/routes"
)

// Options are the options of a benchmark of one set of routes.
type Options struct {
	Routes       *routes.Set
	Destinations []string // kinds of destinations, from routes.Destinations
	Kernels      []string // kernels to measure, the router's and DPDK's; none: all
	Batches      []int    // addresses per call, 1 to MaxBatch; none: only loads and updates are measured
	Addresses    int      // number of each kind; 0: 64 MiB, more than caches hold
	Rounds       int      // number of rounds; the median is reported
	Duration     time.Duration
	Peers        []string // elements of the variable Peers
	PeerProgram  string   // file of the compiled dpdk/peer.c; "": compile it
	Seed         uint64
}

// MaxBatch is the maximum batch size.
const MaxBatch = 4096

// Peers are the names of the tables to compare with.
var Peers = []string{"bart", "dpdk"}

// step is the maximum number of lookups between two clock reads, and therefore the minimum
// number of destinations. peer.c has the same constant.
const step = 1 << 16

// Report is the result of a benchmark.
type Report struct {
	Family   string   `json:"family"`
	Table    string   `json:"table"`
	Source   string   `json:"source"` // origin of the routes
	Routes   int      `json:"routes"`
	Verified int      `json:"verified_addresses"` // per contender
	Core     int      `json:"core"`
	Tables   []*Table `json:"tables"`
	Rates    []*Rate  `json:"rates"`
	Absent   []Absent `json:"absent,omitempty"`
}

// Table is the memory, load time and update rates of one table.
type Table struct {
	Name    string   `json:"name"`
	Note    string   `json:"note,omitempty"`
	Bytes   uint64   `json:"bytes"`        // resident
	Load    float64  `json:"load_seconds"` // all routes into an empty table
	Updates *Updates `json:"updates"`      // nil if updates failed
}

// Rate is the lookup rate of one contender.
type Rate struct {
	Contender    string    `json:"contender"`
	Destinations string    `json:"destinations"`
	Batch        int       `json:"batch"`
	Rounds       []float64 `json:"rounds_mlookups"` // millions of lookups per second
	DPDK         bool      `json:"dpdk"`
}

// Median returns the median of the rounds in millions of lookups per second.
func (r *Rate) Median() float64 { return medianOf(r.Rounds) }

// Absent is a contender that was not measured.
type Absent struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Ratio returns the median over the rounds of a rate divided by the rate of DPDK's fastest
// kernel for the same destinations and batch size; 0 without DPDK. Rates of one round are
// measured within a fraction of a second, in the same state of the host.
func (r *Report) Ratio(of *Rate) float64 {
	var best *Rate
	for _, other := range r.Rates {
		if other.DPDK && other.Destinations == of.Destinations && other.Batch == of.Batch && (best == nil || other.Median() > best.Median()) {
			best = other
		}
	}
	if best == nil {
		return 0
	}
	ratios := make([]float64, len(of.Rounds))
	for i := range ratios {
		ratios[i] = of.Rounds[i] / best.Rounds[i]
	}
	return medianOf(ratios)
}

// median returns the median of sorted values; 0 without values.
func median(ascending []float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[len(ascending)/2]
}

// Run benchmarks one set of routes. It stops between two rounds when ctx ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	switch {
	case o.Routes.Len() == 0:
		return nil, fmt.Errorf("measure lookups: the table has no %v routes", o.Routes.Family)
	case o.Addresses != 0 && o.Addresses < step:
		return nil, fmt.Errorf("measure lookups: %d destinations are too few; the minimum is %d", o.Addresses, step)
	case o.Rounds < 1 || o.Duration <= 0 || len(o.Destinations) == 0:
		return nil, fmt.Errorf("measure lookups: nothing to measure in %d rounds of %v, of %d kinds of destinations",
			o.Rounds, o.Duration, len(o.Destinations))
	}
	for _, batch := range o.Batches {
		if batch < 1 || batch > MaxBatch {
			return nil, fmt.Errorf("measure lookups in batches of %d: 1 to %d are possible", batch, MaxBatch)
		}
	}
	for _, p := range o.Peers {
		if !slices.Contains(Peers, p) {
			return nil, fmt.Errorf("compare with %q: the peers are %v", p, Peers)
		}
	}
	if o.Routes.Family == routes.IPv4 {
		return run(ctx, o, ipv4Family())
	}
	return run(ctx, o, ipv6Family())
}

// measures reports whether a kernel is selected.
func (o *Options) measures(kernel string) bool {
	return len(o.Kernels) == 0 || slices.Contains(o.Kernels, kernel)
}

// contender is a loaded table.
type contender struct {
	table    *Table
	variants []variant
	updates  func() (*Updates, error)
	verify   func() error
	close    func()
}

// variant is a contender with one kernel.
type variant struct {
	name string
	dpdk bool
	// measure looks up destinations of a kind in batches for at least d.
	measure func(kind, batch int, d time.Duration) (lookups int, took time.Duration, err error)
}

func run[A addr](ctx context.Context, o Options, f family[A]) (report *Report, err error) {
	cpus, err := affinity.CPUs()
	if err != nil {
		return nil, err
	}
	b := &bench[A]{Options: o, family: f, core: cpus[len(cpus)-1], readerCore: cpus[0]}
	restore, err := affinity.Pin(b.core)
	if err != nil {
		return nil, err
	}
	defer restore()
	if err := b.prepare(); err != nil {
		return nil, err
	}
	report = &Report{
		Family: o.Routes.Family.String(), Table: o.Routes.Name, Source: o.Routes.Source,
		Routes: o.Routes.Len(), Verified: len(b.queries), Core: b.core,
	}
	contenders, absent, err := b.contenders(ctx)
	defer func() {
		for _, c := range contenders {
			c.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	report.Absent = absent
	if report.Rates, err = b.rates(ctx, contenders); err != nil {
		return nil, err
	}
	for _, c := range contenders {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("measure lookups: %w", context.Cause(ctx))
		}
		if c.table.Updates, err = c.updates(); err != nil && c.variants[0].dpdk {
			report.Absent = append(report.Absent, Absent{c.table.Name + "'s updates", err.Error()})
			report.Tables = append(report.Tables, c.table)
			continue
		} else if err != nil {
			return nil, fmt.Errorf("update %s: %w", c.table.Name, err)
		}
		if err := c.verify(); err != nil {
			return nil, fmt.Errorf("verify %s after updates: %w", c.table.Name, err)
		}
		report.Tables = append(report.Tables, c.table)
	}
	return report, nil
}

// rates measures all variants for each kind of destinations and batch size.
func (b *bench[A]) rates(ctx context.Context, contenders []*contender) (all []*Rate, err error) {
	var variants []variant
	for _, c := range contenders {
		variants = append(variants, c.variants...)
	}
	for kind := range b.Destinations {
		for _, batch := range b.Batches {
			rates, err := b.compare(ctx, variants, kind, batch)
			if err != nil {
				return nil, err
			}
			all = append(all, rates...)
		}
	}
	return all, nil
}

// minWarmUp is the minimum time of untimed lookups that fill the caches with a variant's
// table before each round.
const minWarmUp = 10 * time.Millisecond

// compare runs all rounds of all variants for one kind of destinations and batch size.
// Each round starts with another variant.
func (b *bench[A]) compare(ctx context.Context, variants []variant, kind, batch int) ([]*Rate, error) {
	rates := make([]*Rate, len(variants))
	for i, v := range variants {
		rates[i] = &Rate{Contender: v.name, Destinations: b.Destinations[kind], Batch: batch, DPDK: v.dpdk}
	}
	for round := range b.Rounds {
		for i := range variants {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("measure lookups: %w", context.Cause(ctx))
			}
			i = (i + round) % len(variants)
			_, _, err := variants[i].measure(kind, batch, max(b.Duration/10, min(b.Duration, minWarmUp)))
			lookups, took, err2 := variants[i].measure(kind, batch, b.Duration)
			if err := errors.Join(err, err2); err != nil {
				return nil, fmt.Errorf("look up with %s: %w", variants[i].name, err)
			}
			rates[i].Rounds = append(rates[i].Rounds, float64(lookups)/took.Seconds()/1e6)
		}
	}
	return rates, nil
}
