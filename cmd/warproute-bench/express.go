package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	bench "github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/cli"
)

// expressFlags are the flags of express.
type expressFlags struct {
	subjectFlags
	lanes, loads []string
	rate         string
	options      bench.ExpressOptions
}

func newExpressCommand() *cobra.Command {
	var f expressFlags
	c := &cobra.Command{
		Use:   "express",
		Short: "Measure express packets beside the load of tunnels",
		Long: `Offer packets to the tunnels of an IPsec gateway (bulk) and at the same time small plain ones
with DSCP EF (express), which arrive at and leave by another port of the same workers. Loads
are percentages of the bulk that a gateway with one lane delivers at full load without express
packets. Each load is measured with each kind of lanes:

  none     one lane: express packets share chunks with bulk
  queues   the router's lanes without shares: both use all slots of a GPU
  default  the router's lanes: bulk leaves a share of a GPU's slots to express

Late packets are lost or leave more than the deadline of the express lane (100 µs) after their
scheduled arrival. Every packet of a first run is verified.

  warproute-bench express --size imix --output express.json
  warproute-bench report express.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.addFlags(c, 300*time.Millisecond)
	f.addSizeFlags(c, "1408", "aes128gcm16")
	fl := c.Flags()
	fl.StringSliceVar(&f.lanes, "lanes", []string{"none", "queues", "default"}, "`LANES` to measure: none, queues, default")
	fl.StringSliceVar(&f.loads, "loads", []string{"10", "30", "50", "70", "90", "100", "110", "130"}, "bulk to offer in `PERCENT` of full load")
	fl.StringVar(&f.rate, "rate", "500k", "express packets per second, all workers together")
	f.out.AddFlags(c)
	return c
}

func (f *expressFlags) run(c *cobra.Command) (err error) {
	if err := f.check(c); err != nil {
		return cli.UsageError(err)
	}
	progress, end, err := f.begin(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	meter, err := testbed.NewMeter(f.testbed, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, meter.Close()) }()
	f.options.Options = f.gateway()
	r, err := bench.Express(f.options, meter, progress.Step)
	if err != nil {
		return err
	}
	progress.Done()
	r.DMA = f.dma
	writeExpress(f.out.Text(c), r)
	return f.out.Write(c, []*bench.ExpressResult{r})
}

// check checks the flags.
func (f *expressFlags) check(c *cobra.Command) (err error) {
	o := &f.options
	if f.suite == "" {
		return errors.New("--suite needs a value")
	}
	if err := cmp.Or(f.checkSize(), f.subjectFlags.check(c)); err != nil {
		return err
	}
	for _, text := range f.lanes {
		l, err := testbed.ParseLanes(text)
		if err != nil {
			return fmt.Errorf("--lanes %w", err)
		}
		o.Lanes = append(o.Lanes, l)
	}
	if o.Loads, err = parseShares("loads", "full load", f.loads); err != nil {
		return err
	}
	if len(o.Lanes)*len(o.Loads) == 0 {
		return errors.New("--lanes and --loads need a value")
	}
	if o.Arrival, err = load.ParseArrival(f.arrival); err != nil {
		return fmt.Errorf("--arrival %w", err)
	}
	o.Trial = f.trial
	o.Rate, err = parseLoad("rate", f.rate)
	return err
}

func writeExpress(w io.Writer, r *bench.ExpressResult) {
	fmt.Fprintf(w, "engine %s, %s, %s, %s, %s, %d SAs, workers %d, NICs %d, GPUs %d, DMA %s, verified packets %d\n",
		r.Engine, r.Family, sizeText(r.Sizes), r.Suite, r.Direction, r.SAs, r.Workers, r.NICs, r.GPUs, r.DMA, r.Verified)
	by := "the router"
	if r.NIC {
		by = "the emulated NICs, not the router"
	}
	fmt.Fprintf(w, "full load: %.3f Mpps of bulk with one lane, limited by %s\n\n", r.Full, by)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "lanes\tload %%\tbulk Mpps\tdelivered\tkept\tbulk p50 µs\tp99 µs\texpress Mpps\tp50 µs\tp99 µs\tp99.9 µs\tmax µs\tlost %%\tlate %%\tmissed %%\t\n")
	late := false
	for _, p := range r.Points {
		missed, mark := "-", ""
		if p.Missed != nil {
			missed = fmt.Sprintf("%.3f", 100**p.Missed)
		}
		if p.Overrun {
			mark, late = "*", true
		}
		fmt.Fprintf(t, "%s\t%.4g\t%.3f%s\t%.3f\t%.3f\t%.1f\t%.1f\t%.3f\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%s\t\n", p.Lanes, 100*p.Load, p.Offered, mark, p.Mpps, p.Kept,
			p.Bulk.P50, p.Bulk.P99, p.Rate, p.Express.P50, p.Express.P99, p.Express.P999, p.Express.Max, 100*p.Lost, 100*p.Late, missed)
	}
	_ = t.Flush()
	fmt.Fprintf(w, `latency: from scheduled arrival at one NIC to departure at the other. kept: delivered bulk divided by the offered, up to full load.
late: express packets that were lost or took more than %.0f µs. missed: express packets whose chunk was late, by the router's counters.
`, r.Deadline)
	if late {
		fmt.Fprintln(w, "*: the emulated NICs could not offer this load, and their delay is part of all latencies; use more of them, or fewer workers")
	}
}
