package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/gpulookup"
	"github.com/warproute/warproute/bench/lookup"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/routes"
)

func newLookupCommand() *cobra.Command {
	o := lookup.Options{}
	tables := tableFlags{}
	var engine string
	var out cli.Results
	cmd := &cobra.Command{
		Use:   "lookup",
		Short: "Measure the tables next to bart, rte_fib and rte_fib6",
		Long: `Measure the lookup tables on one core: lookups of cold destinations, loading, updates and
memory. In one run it alternates with bart, a Go trie, and with DPDK's rte_fib and rte_fib6,
in a C program that is compiled if libdpdk-dev is installed. Each is verified before it is
timed: at the edges of every prefix, and for a million destinations of each kind.

  real          the internet's table: the file named by WARPROUTE_ROUTES, else a
                synthetic table of the same size
  internet      synthetic, with the real table's prefix lengths and clustering
  nested        every length, nested
  adversarial   long prefixes spread widely, which need the most memory
  dense         long prefixes of all lengths under a few short ones
  FILE          lines of ` + "`ip route`" + `, or plain prefixes

Destinations are uniform, drawn from the table, Zipf-distributed over a million of the
latter, or sixteen repeated.

With --engine gpu the first GPU walks the same table with the code of the router's kernels,
with addresses and results in GPU memory and in host memory over PCIe. Each rate has a
limit: the same transfers without lookups.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(checkLookupOptions(&o), checkLookupEngine(engine, cmd.Flags().Changed)); err != nil {
				return cli.UsageError(err)
			}
			reports, err := tables.each(o.Seed, func(set *routes.Set) (any, error) {
				o.Routes = set
				return benchLookup(cmd.Context(), out.Text(cmd), engine, o)
			})
			if err != nil {
				return err
			}
			return out.Write(cmd, reports)
		},
	}
	addEngineFlag(cmd, &engine)
	addLookupFlags(cmd, &tables, &o, lookup.Peers)
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Destinations, "dest", routes.Destinations, "kinds of destinations")
	flags.IntVar(&o.Addresses, "addresses", 0, "addresses of each kind (default: more than caches hold)")
	flags.IntSliceVar(&o.Batches, "batch", []int{64}, "addresses per call (cpu)")
	cli.CompleteValues(cmd, "dest", routes.Destinations...)
	out.AddFlags(cmd)
	return cmd
}

func newChurnCommand() *cobra.Command {
	tables := tableFlags{}
	// Without batches no lookups are timed. The reader's addresses are drawn from the table.
	o := lookup.Options{Destinations: []string{"table"}}
	var out cli.Results
	cmd := &cobra.Command{
		Use:   "churn",
		Short: "Measure table updates, alone and next to a reader",
		Long: `Measure loading and updates of a full table: delete, insert and replace routes in random
order, one by one at the maximum rate, alone and while another core looks up. This is the
part of warproute-bench lookup about updates, with the same tables, peers and verification.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLookupOptions(&o); err != nil {
				return cli.UsageError(err)
			}
			reports, err := tables.each(o.Seed, func(set *routes.Set) (any, error) {
				o.Routes = set
				r, err := lookup.Run(cmd.Context(), o)
				if err == nil {
					writeTable(out.Text(cmd), r)
					writeUpdates(out.Text(cmd), o, r)
				}
				return r, err
			})
			if err != nil {
				return err
			}
			return out.Write(cmd, reports)
		},
	}
	addLookupFlags(cmd, &tables, &o, []string{"bart", "dpdk"})
	out.AddFlags(cmd)
	return cmd
}

// addLookupFlags adds the flags of lookup and churn.
func addLookupFlags(cmd *cobra.Command, tables *tableFlags, o *lookup.Options, peers []string) {
	tables.addFlags(cmd)
	addRoundFlags(cmd, &o.Rounds, &o.Duration, 200*time.Millisecond)
	cmd.Flags().StringSliceVar(&o.Peers, "peers", peers, "libraries to compare with, or none (cpu)")
	cmd.Flags().StringSliceVar(&o.Kernels, "kernel", nil, "lookup kernels to measure, such as avx512; none measures all (cpu)")
	cmd.Flags().StringVar(&o.PeerProgram, "peer-program", "", "compiled bench/lookup/dpdk/peer.c; none compiles it here (cpu)")
	cmd.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of routes, next hops, updates and destinations")
	cli.CompleteValues(cmd, "peers", append(lookup.Peers, "none")...)
}

// benchLookup measures one table with an engine and prints the report.
func benchLookup(ctx context.Context, w io.Writer, engine string, o lookup.Options) (report any, err error) {
	if engine == "cpu" {
		r, err := lookup.Run(ctx, o)
		if err == nil {
			writeLookup(w, o, r)
		}
		return r, err
	}
	g := gpulookup.Options{
		Routes: o.Routes, Destinations: o.Destinations, Addresses: o.Addresses,
		Rounds: o.Rounds, Duration: o.Duration, Seed: o.Seed,
	}
	r, err := gpulookup.Run(ctx, g)
	if err == nil {
		writeGPULookup(w, g, r)
	}
	return r, err
}

// checkLookupEngine rejects flags that do not apply to the engine.
func checkLookupEngine(engine string, given func(flag string) bool) error {
	for _, name := range []string{"batch", "peers", "kernel", "peer-program"} {
		if engine == "gpu" && given(name) {
			return fmt.Errorf("--%s requires --engine cpu", name)
		}
	}
	return checkEngine(engine)
}

// checkLookupOptions checks the flags of lookup and churn.
func checkLookupOptions(o *lookup.Options) error {
	if slices.Equal(o.Peers, []string{"none"}) {
		o.Peers = nil
	}
	if len(o.Destinations) == 0 {
		return fmt.Errorf("--dest needs a value: one of %v", routes.Destinations)
	}
	for _, d := range o.Destinations {
		if !slices.Contains(routes.Destinations, d) {
			return fmt.Errorf("--dest %s: write one of %v", d, routes.Destinations)
		}
	}
	for _, b := range o.Batches {
		if err := checkNumbers(number{"batch", b, 1, lookup.MaxBatch}); err != nil {
			return err
		}
	}
	for _, p := range o.Peers {
		if !slices.Contains(lookup.Peers, p) {
			return fmt.Errorf("--peers %s: write %v, or none", p, lookup.Peers)
		}
	}
	if o.Addresses < 0 || o.Addresses > gpulookup.MaxAddresses {
		return fmt.Errorf("--addresses %d: 1 to %d are possible, or 0 for the default", o.Addresses, gpulookup.MaxAddresses)
	}
	return checkRounds(o.Rounds, o.Duration)
}

func writeLookup(w io.Writer, o lookup.Options, r *lookup.Report) {
	writeTable(w, r)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LOOKUPS\tDESTINATIONS\tBATCH\tM/s\tMIN\tMAX\tns\t/ RTE_FIB")
	for _, rate := range r.Rates {
		m, ratio := rate.Median(), "-"
		if x := r.Ratio(rate); x > 0 {
			ratio = fmt.Sprintf("%.2f", x)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.2f\t%s\n", rate.Contender, rate.Destinations, rate.Batch, m, slices.Min(rate.Rounds), slices.Max(rate.Rounds), 1e3/m, ratio)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	writeUpdates(w, o, r)
}

// writeTable prints the table of a report.
func writeTable(w io.Writer, r *lookup.Report) {
	fmt.Fprintf(w, "%s, %d routes, table %s: %s\n", r.Family, r.Routes, r.Table, r.Source)
	fmt.Fprintf(w, "%d addresses verified of each; lookups on core %d\n\n", r.Verified, r.Core)
}

// writeUpdates prints memory, load time and update rates.
func writeUpdates(w io.Writer, o lookup.Options, r *lookup.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tMB\tB/ROUTE\tLOAD ms\tROUTES/s\tUPDATES/s\tWITH READER\tREADER M/s\tALONE")
	for _, table := range r.Tables {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.0f\t%.0f\t", table.Name, float64(table.Bytes)/1e6, float64(table.Bytes)/float64(r.Routes), table.Load*1e3, float64(r.Routes)/table.Load)
		switch u := table.Updates; {
		case u == nil:
			fmt.Fprintln(t, "-\t-\t-\t-")
		case u.Reading == nil:
			fmt.Fprintf(t, "%.0f\t-\t-\t-\n", u.Alone)
		default:
			fmt.Fprintf(t, "%.0f\t%.0f\t%.1f\t%.1f\n", u.Alone, u.Reading.Updates, u.Reading.Reader, u.Reading.ReaderAlone)
		}
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "ONE UPDATE, ns\tINSERT P50\tP99\tMAX\tDELETE P50\tP99\tMAX\tREPLACE P50\tP99\tMAX")
	for _, table := range r.Tables {
		u := table.Updates
		if u == nil || u.Insert == nil {
			continue // only the sustained rate is known
		}
		fmt.Fprint(t, table.Name)
		for _, l := range []*lookup.Latency{u.Insert, u.Delete, u.Replace} {
			fmt.Fprintf(t, "\t%d\t%d\t%d", l.P50, l.P99, l.Max)
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\nmedian of %d alternating rounds of %v", o.Rounds, o.Duration)
	if len(r.Rates) > 0 {
		fmt.Fprint(w, "; / RTE_FIB: ratio to the best of DPDK's rows")
	}
	fmt.Fprintln(w, ";")
	fmt.Fprintln(w, "updates: delete, insert and replace routes in random order; the reader runs on another core")
	for _, table := range r.Tables {
		if table.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", table.Name, table.Note)
		}
	}
	for _, a := range r.Absent {
		fmt.Fprintf(w, "not measured: %s: %s\n", a.Name, a.Reason)
	}
	fmt.Fprintln(w)
}
