package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/forward"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/cli"
)

func newForwardCommand() *cobra.Command {
	o := forward.Options{}
	var family string
	var out cli.Results
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "Measure forwarding on memory ports",
		Long: `Measure forwarding on memory ports: the router receives frames from memory, looks them up,
rewrites and transmits them to memory. Every packet of a first run is compared with the
result of a linear search and a separate rewrite before anything is timed.

A real NIC copies frames by DMA. Here cores emulate it: the workers' cores, or with --nics
extra cores. With --nics a worker only handles descriptor rings, as with a real NIC, and
its CPU time is the cost of the router.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ipv6, err := families(family)
			if err := cmp.Or(err, checkForward(&o), checkRounds(o.Rounds, o.Duration), checkTestbed(cmd, o.Engine, &o.Testbed)); err != nil {
				return cli.UsageError(err)
			}
			progress := cli.NewProgress(cmd.ErrOrStderr())
			defer progress.Done()
			var results []*forward.Result
			for i := range ipv6 {
				o.IPv6 = ipv6[i]
				progress.Step("measurement %d of %d, %d rounds of %v", i+1, len(ipv6), o.Rounds, o.Duration)
				r, err := forward.Run(o)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			progress.Done()
			writeForward(out.Text(cmd), results)
			return out.Write(cmd, results)
		},
	}
	addForwardFlags(cmd, &o)
	cmd.Flags().StringVar(&o.Logical, "logical", "", "compare a `KIND` of logical ports with physical ones in alternating rounds: vlan, vrf, or bond")
	cmd.Flags().IntVar(&o.VLANs, "vlans", 0, "number `N` of VLANs of each port; with --logical vlan, 1 if not given")
	addFamilyFlag(cmd, &family, "both")
	addTestbedFlags(cmd, &o.Testbed)
	addRoundFlags(cmd, &o.Rounds, &o.Duration, time.Second)
	out.AddFlags(cmd)
	return cmd
}

// addForwardFlags adds the flags of engine, table and frames.
func addForwardFlags(cmd *cobra.Command, o *forward.Options) {
	addEngineFlag(cmd, &o.Engine)
	addTableFlags(cmd, &o.Table, &o.Routes, &o.Seed)
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 0, "`TIME` after which an unanswered chunk counts as a GPU failure (default 20ms)")
	o.Sizes = make([]int, 1)
	cmd.Flags().IntVar(&o.Sizes[0], "size", 64, "frame size in bytes, without FCS")
}

// checkForward checks these flags and sets defaults.
func checkForward(o *forward.Options) error {
	switch {
	case o.Sizes[0] < 60 || o.Sizes[0] > 1514:
		return fmt.Errorf("--size %d: 60 to 1514 bytes without FCS are possible", o.Sizes[0])
	case !forward.CheckVLANs(o.VLANs):
		return fmt.Errorf("--vlans %d: 0 to 2047 are possible", o.VLANs)
	case !slices.Contains([]string{"", forward.VLAN, forward.VRF, forward.Bond}, o.Logical):
		return fmt.Errorf("--logical %s: vlan, vrf, and bond are possible", o.Logical)
	case o.VLANs > 0 && o.Logical != "" && o.Logical != forward.VLAN:
		return fmt.Errorf("--vlans %d: with --logical vlan only, not %s", o.VLANs, o.Logical)
	case o.Timeout < 0:
		return fmt.Errorf("--timeout %v: write a positive time, or 0 for the default", o.Timeout)
	}
	if o.VLANs > 0 {
		o.Logical = forward.VLAN
	} else if o.Logical == forward.VLAN {
		o.VLANs = 1
	}
	setChunks(o.Engine, &o.Testbed, false)
	return cmp.Or(checkEngine(o.Engine), checkTable(o.Table, &o.Routes))
}

func writeForward(w io.Writer, results []*forward.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "engine\tfamily\troutes\tbytes\tworkers\tNICs\tGPUs\tMpps\tlimit\tPCIe\tns/packet\tCPU\t")
	stages := []dataplane.Stage{dataplane.StageWait, dataplane.StageEngine, dataplane.StageOrder, dataplane.StageTx}
	for _, s := range stages {
		fmt.Fprintf(t, "%s\t", s)
	}
	fmt.Fprintln(t)
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%s\t%.1f\t%.1f\t", r.Engine, r.Family, r.Routes, r.Size, r.Workers, r.NICs, r.GPUs, r.Mpps, r.Limit, optional(r.PCIeLimit), r.NsPacket, r.CPU)
		for _, s := range stages {
			fmt.Fprintf(t, "%.1f\t", r.Stages[s.String()])
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	for _, r := range results {
		if where := map[string]string{forward.VLAN: fmt.Sprintf("in %d VLANs", r.VLANs), forward.VRF: "in a VRF", forward.Bond: "by a bond"}[r.Logical]; where != "" {
			fmt.Fprintf(w, "%s: %.1f Mpps %s, %.1f Mpps by physical ports: %.3f\n", r.Family, r.Mpps, where, r.Physical, r.Mpps/r.Physical)
		}
	}
	fmt.Fprintf(w, `median of %d rounds, after verifying %d packets byte by byte
limit: Mpps of the same loop with a null engine. PCIe: Mpps of GPUs that only read and write headers in host memory.
CPU and stages: ns of a worker per packet. CPU excludes idle polls, and without emulated NICs also wait (receive) and tx.
`, len(results[0].Rounds), results[0].Verified)
}
