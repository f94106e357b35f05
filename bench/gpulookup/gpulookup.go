package gpulookup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup/device"
	"github.com/warproute/warproute/lookup/trie"
)

// Options describe the measurement of one table.
type Options struct {
	Routes       *routes.Set
	Destinations []string // kinds of them, as routes.Destinations lists
	Addresses    int      // of each kind, rounded up to a multiple of 16 Ki; 0 is 32 Mi, more than caches hold
	Rounds       int      // by turns, of which the median counts
	Duration     time.Duration
	Seed         uint64
	Driver       string // file of the CUDA driver; "" is the installed one
}

const defaultAddresses = 32 << 20

// bench is a measurement while it runs.
type bench struct {
	Options
	family
	*gpu
	loads     []*workload // a kind of destinations each
	questions *workload
	hops      *device.Pinned // the results, as many as the largest workload has
}

// Run measures one table. Where there is no GPU the error says what is missing. It
// stops between two rounds when ctx ends.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	switch {
	case o.Routes.Len() == 0:
		return nil, fmt.Errorf("measure lookups: the table has no %v routes", o.Routes.Family)
	case o.Rounds < 1 || o.Duration <= 0 || len(o.Destinations) == 0 || o.Addresses < 0 || o.Addresses > MaxAddresses:
		return nil, fmt.Errorf("measure lookups: nothing to measure in %d rounds of %d kinds of %d destinations", o.Rounds, len(o.Destinations), o.Addresses)
	}
	b := &bench{Options: o, family: ipv4}
	if o.Routes.Family == routes.IPv6 {
		b.family = ipv6
	}
	if b.gpu, err = openGPU(o.Driver); err != nil {
		return nil, fmt.Errorf("measure lookups on a GPU: %w", err)
	}
	defer func() { err = errors.Join(err, b.close()) }()
	err = b.Context.Do(func() error {
		report, err = b.run(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("measure %v lookups on %s: %w", o.Routes.Family, b.Info.Name, err)
	}
	return report, nil
}

// MaxAddresses keeps the indices of vectors and bytes within what kernels count with.
const MaxAddresses = 1 << 28

func (b *bench) run(ctx context.Context) (*Report, error) {
	table := trie.New(b.Bits())
	if err := table.Load(b.Routes.All()); err != nil {
		return nil, err
	}
	n := b.Addresses
	if n == 0 {
		n = defaultAddresses
	}
	err := b.draw(b.Destinations, n)
	if err == nil {
		err = b.ask()
	}
	if err == nil {
		err = b.answer(table)
	}
	if err == nil {
		b.hops, err = b.Pin(max(b.questions.n, b.loads[0].n) * hopBytes)
	}
	if err == nil {
		err = table.View(b.load)
	}
	if err != nil {
		return nil, err
	}
	ways, err := b.ways()
	if err != nil {
		return nil, err
	}
	r := &Report{
		Family: b.Routes.Family.String(), Table: b.Routes.Name, Source: b.Routes.Source, Routes: b.Routes.Len(),
		TableBytes: b.image.Size(), Addresses: b.loads[0].n, Verified: b.questions.n,
		Device: b.Info.Name, Driver: "CUDA " + b.Version.String(),
	}
	if err := b.verify(ctx, ways); err != nil {
		return nil, err
	}
	if r.Limits, err = b.limits(ctx); err != nil {
		return nil, err
	}
	ways[0].limit = r.Limits.RandomReads
	for _, load := range b.loads {
		rates, err := b.compare(ctx, ways, load)
		if err != nil {
			return nil, err
		}
		r.Rates = append(r.Rates, rates...)
	}
	return r, nil
}

// verify has every way answer the questions.
func (b *bench) verify(ctx context.Context, ways []*way) error {
	for _, w := range ways {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.poison()
		if err := b.once(w, b.questions); err != nil {
			return fmt.Errorf("verify %s: %w", w, err)
		}
	}
	return nil
}

// once looks up all of a workload one way, and checks the results.
func (b *bench) once(w *way, load *workload) error {
	err := w.prepare(load, true)
	if err == nil {
		err = w.pass()
	}
	if err == nil {
		err = w.settle()
	}
	if err := errors.Join(err, w.collect()); err != nil {
		return err
	}
	return load.check(b.hops.Bytes)
}

// compare runs all rounds of all ways with one kind of destinations. With the first kind
// the ways' limits are measured, by turns with them: the best round is it.
func (b *bench) compare(ctx context.Context, ways []*way, load *workload) ([]*Rate, error) {
	rates := make([]*Rate, len(ways))
	for i, w := range ways {
		rates[i] = &Rate{Way: w.name, Destinations: load.name, Chunk: w.chunk}
	}
	for range b.Rounds {
		for i, w := range ways {
			if load == b.loads[0] && w.chunk > 0 {
				g, err := b.rate(ctx, w, load, false)
				if err != nil {
					return nil, fmt.Errorf("%s, without lookups: %w", w, err)
				}
				w.limit = max(w.limit, g)
			}
			b.poison()
			g, err := b.rate(ctx, w, load, true)
			if err == nil {
				err = load.check(b.hops.Bytes)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w, err)
			}
			rates[i].Rounds = append(rates[i].Rounds, g)
		}
	}
	for i, r := range rates {
		slices.Sort(r.Rounds)
		r.Limit = ways[i].limit
	}
	return rates, nil
}

// rate returns how many billions of addresses go one way in a second, with lookups
// or without.
func (b *bench) rate(ctx context.Context, w *way, load *workload, look bool) (float64, error) {
	if err := w.prepare(load, look); err != nil {
		return 0, errors.Join(err, w.collect())
	}
	took, err := b.clock(ctx, w.pass, w.settle)
	if err := errors.Join(err, w.collect()); err != nil {
		return 0, err
	}
	return float64(load.n) / took / 1e9, nil
}

// clock returns the seconds that a pass takes, of as many as fill the duration. settle
// waits for what passes started.
func (b *bench) clock(ctx context.Context, pass, settle func() error) (float64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	took := b.Duration // so that the first measurement is of one pass, to warm up and to count passes by
	for range 2 {
		passes := max(1, int(b.Duration/max(took, time.Microsecond)))
		start := time.Now()
		for range passes {
			if err := pass(); err != nil {
				return 0, errors.Join(err, settle())
			}
		}
		if err := settle(); err != nil {
			return 0, err
		}
		took = time.Since(start) / time.Duration(passes)
	}
	return took.Seconds(), nil
}

// poison sees to it that results which are not written are found out.
func (b *bench) poison() {
	bytes := b.hops.Bytes
	bytes[0] = poison
	for n := 1; n < len(bytes); n *= 2 {
		copy(bytes[n:], bytes[:n])
	}
}
