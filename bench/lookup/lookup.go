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

// Options describe the measurement of one table.
type Options struct {
	Routes       *routes.Set
	Destinations []string // kinds of them, as routes.Destinations lists
	Batches      []int    // addresses a call, 1 to MaxBatch; none: only loading and updates are measured
	Addresses    int      // of each kind; 0 is 64 MiB, more than caches hold
	Rounds       int      // by turns, of which the median counts
	Duration     time.Duration
	Peers        []string // of Peers, whom to compare with
	Seed         uint64
}

// MaxBatch is the largest batch.
const MaxBatch = 4096

// Peers are those that the router's tables can be compared with.
var Peers = []string{"bart", "dpdk"}

// step is how many addresses are looked up between two looks at the clock, and
// so the least number of destinations. peer.c has the same.
const step = 1 << 16

// Report is what a measurement found.
type Report struct {
	Family   string   `json:"family"`
	Table    string   `json:"table"`
	Source   string   `json:"source"` // of the routes
	Routes   int      `json:"routes"`
	Verified int      `json:"verified_addresses"` // of each contender
	Core     int      `json:"core"`
	Tables   []*Table `json:"tables"`
	Rates    []*Rate  `json:"rates"`
	Absent   []Absent `json:"absent,omitempty"`
}

// Table is what a table costs.
type Table struct {
	Name    string   `json:"name"`
	Note    string   `json:"note,omitempty"`
	Bytes   uint64   `json:"bytes"`        // resident
	Load    float64  `json:"load_seconds"` // of all routes into an empty table
	Updates *Updates `json:"updates"`      // nil for one that takes none
}

// Rate is how fast one contender looks up.
type Rate struct {
	Contender    string    `json:"contender"`
	Destinations string    `json:"destinations"`
	Batch        int       `json:"batch"`
	Rounds       []float64 `json:"rounds_mlookups"` // millions of lookups a second, ascending
	DPDK         bool      `json:"dpdk"`
}

// Median is the median round, in millions of lookups a second.
func (r *Rate) Median() float64 { return median(r.Rounds) }

// Absent is a contender that was not measured.
type Absent struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Ratio is r's rate by that of the best of DPDK's for the same destinations and
// batch; 0 if there is none.
func (r *Report) Ratio(of *Rate) float64 {
	var best float64
	for _, other := range r.Rates {
		if other.DPDK && other.Destinations == of.Destinations && other.Batch == of.Batch {
			best = max(best, other.Median())
		}
	}
	if best == 0 {
		return 0
	}
	return of.Median() / best
}

func median(ascending []float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[len(ascending)/2]
}

// Run measures one table. It stops between two rounds when ctx ends.
func Run(ctx context.Context, o Options) (*Report, error) {
	switch {
	case o.Routes.Len() == 0:
		return nil, fmt.Errorf("measure lookups: the table has no %v routes", o.Routes.Family)
	case o.Addresses != 0 && o.Addresses < step:
		return nil, fmt.Errorf("measure lookups: %d destinations are too few; %d are the least", o.Addresses, step)
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

// contender is a table, filled and verified, with its ways to look up in it.
type contender struct {
	table   *Table
	lanes   []lane
	updates func() (*Updates, error)
	verify  func() error
	close   func()
}

// lane is one way to look up, and where its rates go.
type lane struct {
	name string
	dpdk bool
	// look looks destinations of a kind up in batches for a while.
	look func(kind, batch int, d time.Duration) (lookups int, took time.Duration, err error)
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
		Routes: o.Routes.Len(), Verified: len(b.questions), Core: b.core,
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
		if c.table.Updates, err = c.updates(); err != nil && c.lanes[0].dpdk {
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

// rates lets everyone look up by turns, a kind of destinations and a size of
// batches after another.
func (b *bench[A]) rates(ctx context.Context, contenders []*contender) (all []*Rate, err error) {
	var lanes []lane
	for _, c := range contenders {
		lanes = append(lanes, c.lanes...)
	}
	for kind := range b.Destinations {
		for _, batch := range b.Batches {
			rates, err := b.compare(ctx, lanes, kind, batch)
			if err != nil {
				return nil, err
			}
			all = append(all, rates...)
		}
	}
	return all, nil
}

// compare runs all rounds of all lanes with one kind of destinations.
func (b *bench[A]) compare(ctx context.Context, lanes []lane, kind, batch int) ([]*Rate, error) {
	rates := make([]*Rate, len(lanes))
	for i, l := range lanes {
		rates[i] = &Rate{Contender: l.name, Destinations: b.Destinations[kind], Batch: batch, DPDK: l.dpdk}
	}
	for range b.Rounds {
		for i, l := range lanes {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("measure lookups: %w", context.Cause(ctx))
			}
			// The lane before left the caches full of its own table, so the
			// first tenth does not count.
			_, _, err := l.look(kind, batch, b.Duration/10)
			lookups, took, err2 := l.look(kind, batch, b.Duration)
			if err := errors.Join(err, err2); err != nil {
				return nil, fmt.Errorf("look up by %s: %w", l.name, err)
			}
			rates[i].Rounds = append(rates[i].Rounds, float64(lookups)/took.Seconds()/1e6)
		}
	}
	for _, r := range rates {
		slices.Sort(r.Rounds)
	}
	return rates, nil
}
