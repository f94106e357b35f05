package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/lookup"
	"github.com/warproute/warproute/internal/routes"
)

func newBenchChurnCommand() *cobra.Command {
	tables := benchTables{}
	// Without batches no lookups are timed; what readers look up is drawn from the table.
	o := lookup.Options{Destinations: []string{"table"}}
	var jsonFile string
	cmd := &cobra.Command{
		Use:   "churn",
		Short: "Changes of the tables, with and without a reader beside them",
		Long: `Churn measures what a full table takes to fill, and to change: routes are deleted,
inserted and given other next hops in random order, one by one and as fast as it goes,
alone and while another core looks up. It is the half of bench lookup that is about
changes, with the same tables and peers, verified before and after.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Peers = named(o.Peers)
			if err := checkLookupOptions(o); err != nil {
				return usageError(err)
			}
			reports, err := tables.each(o.Seed, func(set *routes.Set) (any, error) {
				o.Routes = set
				r, err := lookup.Run(cmd.Context(), o)
				if err == nil {
					writeTable(textOf(cmd, jsonFile), r)
					writeUpdates(textOf(cmd, jsonFile), o, r)
				}
				return r, err
			})
			if err != nil {
				return err
			}
			return writeJSON(cmd, jsonFile, reports)
		},
	}
	flags := cmd.Flags()
	tables.addFlags(cmd)
	flags.IntVar(&o.Rounds, "rounds", 5, "of which the median counts")
	flags.DurationVar(&o.Duration, "duration", 200*time.Millisecond, "of a round")
	flags.StringSliceVar(&o.Peers, "peers", []string{"bart", "dpdk"}, "with whom to compare, or none")
	flags.Uint64Var(&o.Seed, "seed", 1, "of routes, next hops and changes")
	flags.StringVar(&jsonFile, "json", "", "also write the results as JSON to `FILE`; -: print it, and nothing else")
	return cmd
}
