package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/gpulookup"
	"github.com/warproute/warproute/bench/lookup"
	"github.com/warproute/warproute/internal/routes"
)

func newBenchLookupCommand() *cobra.Command {
	o := lookup.Options{}
	tables := benchTables{}
	var engine, jsonFile string
	cmd := &cobra.Command{
		Use:   "lookup",
		Short: "The tables, beside bart and DPDK's rte_fib and rte_fib6",
		Long: `Lookup measures the tables on one core: lookups of cold destinations, loading,
updates, memory. It alternates in one run with bart, a Go trie, and with DPDK's
rte_fib and rte_fib6, in a C program that is compiled for it where libdpdk-dev is
installed. Each is verified before it is timed: the edges of every prefix, and a
million destinations of each kind.

  real          the internet's table: the file that WARPROUTE_ROUTES names, or
                ../shared/data/full-table.txt.gz from the project's root
  internet      synthetic, with the real one's prefix lengths and clustering
  nested        every length, one in another
  adversarial   what costs the most memory: long prefixes spread wide
  dense         long prefixes of all lengths beneath a few
  FILE          lines as ` + "`ip route`" + ` prints them, or bare prefixes

Destinations are uniform, drawn from the table, Zipf-distributed over a million
of the latter, or sixteen repeated.

With --engine gpu the same table is walked on the first GPU, by the code of the
router's kernels: addresses and results in the GPU's memory, and in the host's, over
PCIe. Beside each rate is what the machine gives to the same without lookups.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Peers = named(o.Peers)
			if err := checkLookupOptions(o); err != nil {
				return usageError(err)
			}
			if err := checkLookupEngine(engine, cmd.Flags().Changed); err != nil {
				return usageError(err)
			}
			reports, err := tables.each(o.Seed, func(set *routes.Set) (any, error) {
				o.Routes = set
				return benchLookup(cmd.Context(), textOf(cmd, jsonFile), engine, o)
			})
			if err != nil {
				return err
			}
			return writeJSON(cmd, jsonFile, reports)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&engine, "engine", "cpu", "cpu or gpu")
	tables.addFlags(cmd)
	flags.StringSliceVar(&o.Destinations, "dest", routes.Destinations, "kinds of destinations")
	flags.IntVar(&o.Addresses, "addresses", 0, "of each kind; 0 is more than caches hold")
	flags.IntSliceVar(&o.Batches, "batch", []int{64}, "addresses a call (cpu)")
	flags.IntVar(&o.Rounds, "rounds", 5, "by turns, of which the median counts")
	flags.DurationVar(&o.Duration, "duration", 200*time.Millisecond, "of a round")
	flags.StringSliceVar(&o.Peers, "peers", lookup.Peers, "with whom to compare, or none (cpu)")
	flags.Uint64Var(&o.Seed, "seed", 1, "of routes, next hops and destinations")
	flags.StringVar(&jsonFile, "json", "", "also write the results as JSON to `FILE`; -: print it, and nothing else")
	return cmd
}

// benchLookup measures one table with an engine, and prints what it found.
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

// checkLookupEngine refuses flags that an engine has no use for.
func checkLookupEngine(engine string, given func(flag string) bool) error {
	switch engine {
	case "cpu":
		return nil
	case "gpu":
		for _, name := range []string{"batch", "peers"} {
			if given(name) {
				return fmt.Errorf("--%s is for --engine cpu: leave it out", name)
			}
		}
		return nil
	}
	return fmt.Errorf("--engine %s: write cpu or gpu", engine)
}

// named returns the peers that --peers names, of which none is nobody.
func named(peers []string) []string {
	if slices.Equal(peers, []string{"none"}) {
		return nil
	}
	return peers
}

// checkLookupOptions refuses what the user got wrong, before a table is made.
func checkLookupOptions(o lookup.Options) error {
	if len(o.Destinations) == 0 {
		return fmt.Errorf("--dest names none: destinations are %v", routes.Destinations)
	}
	for _, d := range o.Destinations {
		if !slices.Contains(routes.Destinations, d) {
			return fmt.Errorf("--dest %s: destinations are %v", d, routes.Destinations)
		}
	}
	for _, b := range o.Batches {
		if b < 1 || b > lookup.MaxBatch {
			return fmt.Errorf("--batch %d: it is 1 to %d", b, lookup.MaxBatch)
		}
	}
	for _, p := range o.Peers {
		if !slices.Contains(lookup.Peers, p) {
			return fmt.Errorf("--peers %s: they are %v, or none", p, lookup.Peers)
		}
	}
	if o.Addresses < 0 || o.Addresses > gpulookup.MaxAddresses {
		return fmt.Errorf("--addresses %d: 1 to %d are possible, or 0", o.Addresses, gpulookup.MaxAddresses)
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
		fmt.Fprintf(t, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.2f\t%s\n", rate.Contender, rate.Destinations, rate.Batch, m, rate.Rounds[0], rate.Rounds[len(rate.Rounds)-1], 1e3/m, ratio)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	writeUpdates(w, o, r)
}

// writeTable writes what is measured.
func writeTable(w io.Writer, r *lookup.Report) {
	fmt.Fprintf(w, "%s, %d routes, table %s: %s\n", r.Family, r.Routes, r.Table, r.Source)
	fmt.Fprintf(w, "%d addresses verified of each; lookups on core %d\n\n", r.Verified, r.Core)
}

// writeUpdates writes what tables take to fill, to keep and to change.
func writeUpdates(w io.Writer, o lookup.Options, r *lookup.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tMB\tB/ROUTE\tLOAD ms\tROUTES/s\tUPDATES/s\tWHILE READ\tREADER M/s\tALONE")
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
			continue // only sustained
		}
		fmt.Fprint(t, table.Name)
		for _, l := range []*lookup.Latency{u.Insert, u.Delete, u.Replace} {
			fmt.Fprintf(t, "\t%d\t%d\t%d", l.P50, l.P99, l.Max)
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\nmedian of %d rounds of %v, by turns", o.Rounds, o.Duration)
	if len(r.Rates) > 0 {
		fmt.Fprint(w, "; / RTE_FIB is against the best of DPDK's rows")
	}
	fmt.Fprintln(w, ";")
	fmt.Fprintln(w, "updates delete, insert and replace routes in random order; the reader is on another core")
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
