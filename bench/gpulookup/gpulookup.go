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
	Destinations []string // kinds, as listed by routes.Destinations
	Addresses    int      // per kind, rounded up to a multiple of 16 Ki; 0 means 32 Mi, which exceeds all caches
	Rounds       int      // alternating between methods; the median is reported
	Duration     time.Duration
	Seed         uint64
	Driver       string // file of the CUDA driver; "" for the installed one
}

const defaultAddresses = 32 << 20

// bench is a running measurement.
type bench struct {
	Options
	family
	*gpu
	loads   []*workload // one per kind of destinations
	samples *workload
	hops    *device.Pinned // results, as many as the largest workload needs
}

// Run measures one table. It stops between two rounds when ctx is done.
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

// MaxAddresses keeps vector and byte indexes within the 32 bits of the kernels.
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
		err = b.drawSamples()
	}
	if err == nil {
		err = b.expect(table)
	}
	if err == nil {
		b.hops, err = b.Pin(max(b.samples.n, b.loads[0].n) * hopBytes)
	}
	if err == nil {
		err = table.View(b.load)
	}
	if err != nil {
		return nil, err
	}
	methods, err := b.methods()
	if err != nil {
		return nil, err
	}
	r := &Report{
		Family: b.Routes.Family.String(), Table: b.Routes.Name, Source: b.Routes.Source, Routes: b.Routes.Len(),
		TableBytes: b.image.Size(), Addresses: b.loads[0].n, Verified: b.samples.n,
		Device: b.Info.Name, Driver: "CUDA " + b.Version.String(),
	}
	if err := b.verify(ctx, methods); err != nil {
		return nil, err
	}
	if r.Limits, err = b.limits(ctx); err != nil {
		return nil, err
	}
	methods[0].limit = r.Limits.RandomReads
	for _, load := range b.loads {
		rates, err := b.compare(ctx, methods, load)
		if err != nil {
			return nil, err
		}
		r.Rates = append(r.Rates, rates...)
	}
	return r, nil
}

// verify checks the results of every method before it is measured.
func (b *bench) verify(ctx context.Context, methods []*method) error {
	for _, w := range methods {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.poison()
		if err := b.once(w, b.samples); err != nil {
			return fmt.Errorf("verify %s: %w", w, err)
		}
	}
	return nil
}

// once looks up a workload in one method and checks the results.
func (b *bench) once(w *method, load *workload) error {
	err := w.prepare(load, true)
	if err == nil {
		err = w.pass()
	}
	if err == nil {
		err = w.wait()
	}
	if err := errors.Join(err, w.collect()); err != nil {
		return err
	}
	return load.check(b.hops.Bytes)
}

// compare runs all rounds of all methods with one kind of destinations. Rounds of the first kind
// alternate with measurements of the methods' limits, of which the best is reported.
func (b *bench) compare(ctx context.Context, methods []*method, load *workload) ([]*Rate, error) {
	rates := make([]*Rate, len(methods))
	for i, w := range methods {
		rates[i] = &Rate{Method: w.name, Destinations: load.name, Chunk: w.chunk}
	}
	for range b.Rounds {
		for i, w := range methods {
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
		r.Limit = methods[i].limit
	}
	return rates, nil
}

// rate returns the billions of addresses per second of one method, with or without lookups.
func (b *bench) rate(ctx context.Context, w *method, load *workload, look bool) (float64, error) {
	if err := w.prepare(load, look); err != nil {
		return 0, errors.Join(err, w.collect())
	}
	took, err := b.clock(ctx, w.pass, w.wait)
	if err := errors.Join(err, w.collect()); err != nil {
		return 0, err
	}
	return float64(load.n) / took / 1e9, nil
}

// clock returns the mean seconds per pass over as many passes as fill the duration. wait waits for
// the passes to finish.
func (b *bench) clock(ctx context.Context, pass, wait func() error) (float64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	took := b.Duration // the first measurement is one pass: it warms up and estimates the number of passes
	for range 2 {
		passes := max(1, int(b.Duration/max(took, time.Microsecond)))
		start := time.Now()
		for range passes {
			if err := pass(); err != nil {
				return 0, errors.Join(err, wait())
			}
		}
		if err := wait(); err != nil {
			return 0, err
		}
		took = time.Since(start) / time.Duration(passes)
	}
	return took.Seconds(), nil
}

// poison overwrites all results, so that check finds missing ones.
func (b *bench) poison() {
	bytes := b.hops.Bytes
	bytes[0] = poison
	for n := 1; n < len(bytes); n *= 2 {
		copy(bytes[n:], bytes[:n])
	}
}
