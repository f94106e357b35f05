package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/forward"
	"github.com/warproute/warproute/internal/cli"
)

func newLatencyCommand() *cobra.Command {
	o := forward.Options{}
	var sizes []int
	var chunks int
	var family string
	var out cli.Results
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure engine latency per chunk size",
		Long: `Submit chunks to an engine, one at a time, and measure the time until the engine is done:
descriptors, headers, lookup, rewrite and verdicts. Frames are written before each chunk.
With --engine gpu it measures both engines.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := cmp.Or(checkForward(&o), checkNumbers(number{"count", chunks, 1, maxCount}))
			for _, n := range sizes {
				err = cmp.Or(err, checkNumbers(number{"sizes", n, 1, 4096}))
			}
			if family != "4" && family != "6" {
				err = cmp.Or(err, fmt.Errorf("--family %s: write 4 or 6", family))
			}
			if len(sizes) == 0 {
				err = cmp.Or(err, errors.New("--sizes needs a value"))
			}
			if err != nil {
				return cli.UsageError(err)
			}
			o.IPv6 = family == "6"
			progress := cli.NewProgress(cmd.ErrOrStderr())
			defer progress.Done()
			var all []forward.Latency
			for _, engine := range []string{"gpu", "cpu"} {
				if engine == "gpu" && o.Engine == "cpu" {
					continue
				}
				progress.Step("%s, %d chunks of %v packets", engine, chunks, sizes)
				p := o
				p.Engine = engine
				l, err := forward.MeasureLatency(p, sizes, chunks)
				if err != nil {
					return err
				}
				all = append(all, l...)
			}
			progress.Done()
			writeLatency(out.Text(cmd), all)
			return out.Write(cmd, all)
		},
	}
	addForwardFlags(cmd, &o)
	addTileFlags(cmd, &o.Testbed)
	cmd.Flags().StringVar(&family, "family", "4", "address `FAMILY`: 4 or 6")
	cmd.Flags().IntSliceVar(&sizes, "sizes", []int{16, 60, 240, 1024, 4096}, "packets per chunk")
	cmd.Flags().IntVar(&chunks, "count", 5000, "chunks of each size")
	cli.CompleteValues(cmd, "family", "4", "6")
	out.AddFlags(cmd)
	return cmd
}

func writeLatency(w io.Writer, all []forward.Latency) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "engine\tpackets\tp50 µs\tp99 µs\tmax µs\t")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t\n", l.Engine, l.Packets, l.P50, l.P99, l.Max)
	}
	_ = t.Flush()
}
