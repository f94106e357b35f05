package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/ladder"
	"github.com/warproute/warproute/internal/cli"
)

func newLadderCommand() *cobra.Command {
	var o ladder.Options
	var percent float64
	var out cli.Results
	c := &cobra.Command{
		Use:   "ladder",
		Short: "Measure each step from copies and launches to the router's GPU engine",
		Long: `Measure IPv4 forwarding of 64-byte packets in several ways, the rungs, which alternate in each
round:

` + rungTexts() + `
Per rung and chunk size: throughput with several chunks and with one chunk in flight, latency
of one chunk in flight, latency of chunks that are due at the times of a load, which is a share
of the first rung's throughput, and latency of small express chunks beside large ones. Values
are medians of the rounds. The results of each rung are compared with the CPU engine's before
the first measurement and after each one.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Load = percent / 100
			if err := cmp.Or(checkTable(o.Table, &o.Routes), checkRounds(o.Rounds, o.Duration), o.Check()); err != nil {
				return cli.UsageError(err)
			}
			progress := cli.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			r, err := ladder.Run(o, progress.Step)
			if err != nil {
				return err
			}
			progress.Done()
			writeLadder(out.Text(c), r)
			return out.Write(c, []*ladder.Result{r})
		},
	}
	addTableFlags(c, &o.Table, &o.Routes, &o.Seed)
	addRoundFlags(c, &o.Rounds, &o.Duration, 100*time.Millisecond)
	f := c.Flags()
	f.IntSliceVar(&o.Sizes, "sizes", []int{60, 240, 1024, 4096}, "packets per chunk")
	f.IntVar(&o.InFlight, "chunks", 8, "chunks in flight of the throughput measurement")
	f.StringSliceVar(&o.Rungs, "rungs", ladder.Names(), "`NAMES` of rungs to measure; the first one's throughput is the reference of the load")
	f.Float64Var(&percent, "load", 70, "`PERCENT` of the first rung's throughput to offer")
	cli.CompleteValues(c, "rungs", ladder.Names()...)
	out.AddFlags(c)
	return c
}

// rungTexts returns a line per rung.
func rungTexts() string {
	var b strings.Builder
	for _, name := range ladder.Names() {
		fmt.Fprintf(&b, "  %-15s %s\n", name, ladder.Description(name))
	}
	return b.String()
}

func writeLadder(w io.Writer, r *ladder.Result) {
	fmt.Fprintf(w, "%s, %d routes, table %s; in-place PCIe limit %.1f Mpps; verified packets %d\n\n", r.GPU, r.Routes, r.Table, r.PCIe, r.Verified)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "rung\tpackets\tMpps, %d in flight\t÷ %s\tCPU %%\tMpps, 1 in flight\tCPU %%\tp50 µs\tp99 µs\tp50 at load\tp99 at load\tMpps, mixed\texpress p50\texpress p99\tkernels µs\tin place µs\t\n", r.InFlight, r.Points[0].Rung)
	for _, p := range r.Points {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.2f\t%.0f\t%.1f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t%.1f\t\n",
			p.Rung, p.Packets, p.Mpps, p.Mpps/r.First(p.Packets).Mpps, 100*p.CPU, p.One, 100*p.OneCPU, p.P50, p.P99, p.LoadP50, p.LoadP99, p.Mixed, p.ExpressP50, p.ExpressP99, optional(p.Kernel), p.InPlace)
	}
	_ = t.Flush()
	fmt.Fprintf(w, `Medians of %d alternating rounds; every packet of a first run and of each measurement is compared with the CPU engine's.
p50, p99: latency of a chunk from Submit to Done, one in flight. At load: from the time at which the chunk was due, at
%.4g %% of the Mpps of %s at the same size. Mixed: beside express chunks of 60 packets, one every 50 µs, whose latency is express.
CPU: chunks that the CPU engine executed. kernels: time of a chunk's kernels on the device. in place: time of a chunk at the PCIe limit.
`, r.Rounds, 100*r.Load, r.Points[0].Rung)
}
