package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/veth"
	"github.com/warproute/warproute/internal/cli"
)

func newVethCommand() *cobra.Command {
	o := veth.Options{}
	var only, router string
	var out cli.Results
	cmd := &cobra.Command{
		Use:   "veth",
		Short: "Measure forwarding on veth next to Linux and DPDK",
		Long: `Send 60-byte packets through two veth pairs, with the sender on core 0 (XDP live frames) and
the router on core 1, and count arrivals. Linux's forwarding, DPDK's testpmd with its AF_XDP
driver, and warproute alternate in one run. Each is verified byte by byte before it is timed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkRounds(o.Rounds, o.Duration); err != nil {
				return cli.UsageError(err)
			}
			if !slices.ContainsFunc(vethContenders("", only), func(c veth.Contender) bool { return !c.Skip }) {
				return cli.UsageError(fmt.Errorf("--only %s: no router has this in its name, such as %q", only, veth.Linux().Name))
			}
			program, err := findRouter(router)
			if err != nil {
				return err
			}
			results, distance, err := veth.Run(cmd.Context(), o, vethContenders(program, only))
			if err != nil {
				return err
			}
			failed := writeVeth(out.Text(cmd), o, results, distance)
			return errors.Join(failed, out.Write(cmd, results))
		},
	}
	addRouterFlag(cmd, &router)
	addRoundFlags(cmd, &o.Rounds, &o.Duration, time.Second)
	cmd.Flags().StringVar(&only, "only", "", "measure only routers with `TEXT` in their name")
	out.AddFlags(cmd)
	return cmd
}

// vethContenders returns the routers to compare; those whose name lacks only are skipped.
func vethContenders(program, only string) []veth.Contender {
	all := []veth.Contender{
		veth.Drop(), veth.Linux(),
		veth.Testpmd("DPDK testpmd, NAPI on core 0", false), veth.Testpmd("DPDK testpmd, NAPI on core 1", true),
		veth.Warproute(program, "warproute, napi: interrupt"), veth.Warproute(program, "warproute, napi: thread", "napi: thread"),
	}
	for i, c := range all {
		all[i].Skip = !strings.Contains(c.Name, only)
	}
	return all
}

// writeVeth prints the results. It fails if one of the routers failed.
func writeVeth(w io.Writer, o veth.Options, results []*veth.Result, distance veth.Distance) (failed error) {
	linux, testpmd := results[1].Median(), max(results[2].Median(), results[3].Median())
	ratio := func(mpps, to float64) string {
		if to == 0 {
			return "-"
		}
		return fmt.Sprintf("%.2f", mpps/to)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROUTER\tMpps\tMIN\tMAX\t/ LINUX\t/ TESTPMD\tBOUND BY")
	for _, r := range results {
		if r.Error == "" && len(r.Rounds) == 0 {
			continue
		}
		if r.Error != "" {
			fmt.Fprintf(t, "%s\t-\t-\t-\t-\t-\tnot measured\n", r.Name)
			failed = errors.Join(failed, fmt.Errorf("%s: %s", r.Name, r.Error))
			continue
		}
		m := r.Median()
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%s\t%s\t%s\n", r.Name, m, r.Rounds[0], r.Rounds[len(r.Rounds)-1], ratio(m, linux), ratio(m, testpmd), r.Bound)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "median of %d alternating rounds of %v; 60-byte packets, sender on core 0, router on core 1\n", o.Rounds, o.Duration)
	fmt.Fprintf(w, "/ TESTPMD: ratio to the better of its two rows; round trip of a cache line between the cores: %v to %v\n", distance.Min, distance.Max)
	return failed
}
