package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/forward"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/internal/routes"
)

const (
	maxChunks = 64
	maxCount  = 10_000_000 // chunks of a size
)

// addForwardFlags adds what says which engine forwards what by which table.
func addForwardFlags(cmd *cobra.Command, o *forward.Options) {
	cmd.Flags().StringVar(&o.Engine, "engine", "cpu", "`ENGINE` that decides: cpu or gpu")
	cmd.Flags().StringVar((*string)(&o.Mode), "mode", string(gpu.Resident), "how chunks reach a GPU: resident or launched")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 0, "that a GPU has for a chunk before it counts as failed; 0 is 20ms")
	cmd.Flags().StringVar(&o.Table, "table", "random", "random, real, internet, nested, adversarial or dense")
	cmd.Flags().IntVar(&o.Routes, "routes", 0, "in the table; 0 is 10,000 random ones, or as many as the real table has")
	cmd.Flags().IntVar(&o.Size, "size", 64, "bytes of a frame in memory, without the 4 of its checksum")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "of routes and packets")
}

// checkForward checks these flags and puts defaults in.
func checkForward(o *forward.Options) error {
	if o.Size < 60 || o.Size > 1514 {
		return fmt.Errorf("--size %d: without their checksum, frames have 60 to 1514 bytes", o.Size)
	}
	if o.Engine != "cpu" && o.Engine != "gpu" {
		return fmt.Errorf("--engine %s: write cpu or gpu", o.Engine)
	}
	if o.Mode != gpu.Resident && o.Mode != gpu.Launched {
		return fmt.Errorf("--mode %s: write resident or launched", o.Mode)
	}
	if o.Table != "random" && !slices.Contains(routes.Names(), o.Table) {
		return fmt.Errorf("--table %s: it is random or one of %v", o.Table, routes.Names())
	}
	if o.Routes < 0 || o.Routes > routes.MaxRoutes {
		return fmt.Errorf("--routes %d: 1 to %d are possible", o.Routes, routes.MaxRoutes)
	}
	if o.Table == "random" && o.Routes == 0 {
		o.Routes = 10_000
	}
	if o.Chunks == 0 {
		o.Chunks = map[string]int{"cpu": 1, "gpu": 8}[o.Engine]
	}
	if o.Timeout < 0 {
		return fmt.Errorf("--timeout %v: a GPU needs some time, or 0 for its own", o.Timeout)
	}
	return checkNumbers(number{"chunks", o.Chunks, 1, maxChunks})
}

func newBenchLatencyCommand() *cobra.Command {
	o := forward.Options{}
	var sizes []int
	var chunks int
	var family, jsonFile string
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "How long an engine has a chunk, by its size",
		Long: `Latency hands chunks to an engine, one at a time, and takes the time from there
until the engine is found done: descriptors, headers, lookup, rewrite, verdicts,
everything. Frames are written anew for each. With --engine gpu the resident and
the launched kernel are measured, and the CPU engine beside them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkForward(&o); err != nil {
				return usageError(err)
			}
			if err := checkNumbers(number{"count", chunks, 1, maxCount}); err != nil {
				return usageError(err)
			}
			for _, n := range sizes {
				if n < 1 || n > 4096 {
					return usageError(fmt.Errorf("--sizes %d: chunks have 1 to 4096 packets", n))
				}
			}
			if family != "4" && family != "6" {
				return usageError(fmt.Errorf("--family %s: it is 4 or 6", family))
			}
			o.IPv6 = family == "6"
			var all []forward.Latency
			for _, way := range []struct {
				engine string
				mode   gpu.Mode
			}{{"gpu", gpu.Resident}, {"gpu", gpu.Launched}, {"cpu", ""}} {
				if way.engine == "gpu" && o.Engine == "cpu" {
					continue
				}
				p := o
				p.Engine, p.Mode = way.engine, way.mode
				l, err := forward.MeasureLatency(p, sizes, chunks)
				if err != nil {
					return err
				}
				all = append(all, l...)
			}
			writeLatency(textOf(cmd, jsonFile), all)
			return writeJSON(cmd, jsonFile, all)
		},
	}
	addForwardFlags(cmd, &o)
	cmd.Flags().StringVar(&family, "family", "4", "4 or 6")
	cmd.Flags().IntSliceVar(&sizes, "sizes", []int{16, 60, 240, 1024, 4096}, "packets of a chunk")
	cmd.Flags().IntVar(&chunks, "count", 5000, "chunks of each size")
	cmd.Flags().StringVar(&jsonFile, "json", "", "also write the results as JSON to `FILE`; -: print it, and nothing else")
	return cmd
}

func writeLatency(w io.Writer, all []forward.Latency) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "engine\tmode\tpackets\tp50 µs\tp99 µs\tmax µs\t")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t%s\t%d\t%.2f\t%.2f\t%.2f\t\n", l.Engine, l.Mode, l.Packets, l.P50, l.P99, l.Max)
	}
	_ = t.Flush()
}
