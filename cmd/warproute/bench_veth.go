package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/veth"
)

func newBenchVethCommand() *cobra.Command {
	o := veth.Options{}
	var jsonFile, only string
	cmd := &cobra.Command{
		Use:   "veth",
		Short: "60-byte packets through two veth pairs, beside Linux and DPDK",
		Long: `Veth sends 60-byte packets through two veth pairs, the sender on core 0 (XDP live
frames), the router on core 1, and counts what arrives. Linux's own forwarding,
DPDK's testpmd with its AF_XDP driver and warproute take turns, in one run. Each
is verified, byte by byte, before it is timed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			contenders := []veth.Contender{
				veth.Drop(), veth.Linux(),
				veth.Testpmd("DPDK testpmd, NAPI on core 0", false), veth.Testpmd("DPDK testpmd, NAPI on core 1", true),
				veth.Warproute("warproute, napi: interrupt"), veth.Warproute("warproute, napi: thread", "napi: thread"),
			}
			if err := checkRounds(o.Rounds, o.Duration); err != nil {
				return usageError(err)
			}
			measured := false
			for i, c := range contenders {
				contenders[i].Skip = !strings.Contains(c.Name, only)
				measured = measured || !contenders[i].Skip
			}
			if !measured {
				return usageError(fmt.Errorf("--only %s: no router's name has that in it, such as %q", only, contenders[1].Name))
			}
			results, distance, err := veth.Run(cmd.Context(), o, contenders)
			if err != nil {
				return err
			}
			failed := writeVeth(textOf(cmd, jsonFile), o, results, distance)
			return errors.Join(failed, writeJSON(cmd, jsonFile, results))
		},
	}
	cmd.Flags().IntVar(&o.Rounds, "rounds", 5, "by turns, of which the median counts")
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "of a round")
	cmd.Flags().StringVar(&only, "only", "", "measure just the routers whose name has this `text` in it")
	cmd.Flags().StringVar(&jsonFile, "json", "", "also write the results as JSON to `FILE`; -: print it, and nothing else")
	return cmd
}

// writeVeth writes the table. It fails if one of the routers did.
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
	fmt.Fprintf(w, "median of %d rounds of %v, by turns; 60-byte packets, sender on core 0, router on core 1;\n", o.Rounds, o.Duration)
	fmt.Fprintf(w, "/ TESTPMD is against the better of its two rows; a cache line took %v to %v from core to core and back\n", distance.Min, distance.Max)
	return failed
}
