package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/bench/forward"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/dataplane"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure, after verifying"}
	cmd.AddCommand(profiled(newBenchForwardCommand()), profiled(newBenchIPsecCommand()), newBenchLatencyCommand(), tidy(newBenchLookupCommand()), tidy(newBenchChurnCommand()), tidy(newBenchVethCommand()))
	return group(cmd)
}

func newBenchForwardCommand() *cobra.Command {
	o := forward.Options{}
	var family, jsonFile string
	cmd := &cobra.Command{
		Use:   "forward",
		Short: "The whole way of a packet on memory ports",
		Long: `Forward runs the router on ports that are memory: frames are written into the
workers' memory as a card would, go through receive, engine, order and transmit,
and are read as a card would. Every packet of a first run is compared with what a linear
search and a plain rewrite give; only then is anything timed.

A network card copies frames by itself (DMA). Here somebody has to play it: the
cores of the workers, besides their own work, or, with --cards, cores that do nothing
else. Then a worker meets what it meets at a card, rings of descriptions, and its CPU
time is what the router costs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			families, ok := map[string][]bool{"both": {false, true}, "4": {false}, "6": {true}}[family]
			if !ok {
				return usageError(fmt.Errorf("--family %s: it is 4, 6 or both", family))
			}
			if err := cmp.Or(checkForward(&o), checkRounds(o.Rounds, o.Duration), checkNumbers(
				number{"batch", o.MaxPackets, 1, config.MaxPackets}, number{"workers", o.Workers, 1, maxWorkers},
				number{"cards", o.Cards, 0, maxCards * o.Workers}, number{"shadow", o.Shadow, 0, math.MaxInt32},
			), checkGPUs(cmd, o.Engine, &o.GPUs, o.Workers)); err != nil {
				return usageError(err)
			}
			var results []*forward.Result
			for _, o.IPv6 = range families {
				r, err := forward.Run(o)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			writeForward(textOf(cmd, jsonFile), results)
			return writeJSON(cmd, jsonFile, results)
		},
	}
	cmd.Flags().StringVar(&family, "family", "both", "4, 6 or both")
	addForwardFlags(cmd, &o)
	cmd.Flags().IntVar(&o.MaxPackets, "batch", 256, "packets of a chunk")
	cmd.Flags().IntVar(&o.Chunks, "chunks", 0, "chunks that a worker may have in flight; 0 is 1 for the CPU and 8 for a GPU")
	cmd.Flags().IntVar(&o.Workers, "workers", 1, "workers, each on a core of its own")
	cmd.Flags().IntVar(&o.Cards, "cards", 0, "cores besides that play the workers' network cards, up to two a worker; 0: the workers' cores do")
	addGPUs(cmd, &o.GPUs)
	addShadow(cmd, &o.Shadow)
	cmd.Flags().DurationVar(&o.Duration, "duration", time.Second, "of a round")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 5, "of which the median counts")
	cmd.Flags().StringVar(&jsonFile, "json", "", "also write the results as JSON to `FILE`; -: print it, and nothing else")
	return cmd
}

const (
	maxRounds  = 1000
	maxWorkers = 256
	maxCards   = bed.Ports // of a worker: one for each of its queues
)

// checkRounds refuses rounds that measure nothing.
func checkRounds(rounds int, duration time.Duration) error {
	if duration <= 0 {
		return fmt.Errorf("--duration %v: a round takes some time", duration)
	}
	return checkNumbers(number{"rounds", rounds, 1, maxRounds})
}

// number is the value of a flag, and what it may be.
type number struct {
	flag           string
	n, least, most int
}

// checkNumbers returns what is wrong with the first that is out of its range.
func checkNumbers(numbers ...number) error {
	for _, v := range numbers {
		if v.n < v.least || v.n > v.most {
			return fmt.Errorf("--%s %d: %d to %d are possible", v.flag, v.n, v.least, v.most)
		}
	}
	return nil
}

func writeForward(w io.Writer, results []*forward.Result) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "engine\tfamily\troutes\tbytes\tworkers\tcards\tgpus\tMpps\tlimit\tin place\tns/packet\tCPU\t")
	stages := []dataplane.Stage{dataplane.StageWait, dataplane.StageEngine, dataplane.StageOrder, dataplane.StageTx}
	for _, s := range stages {
		fmt.Fprintf(t, "%s\t", s)
	}
	fmt.Fprintln(t)
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%s\t%.1f\t%.1f\t", r.Engine, r.Family, r.Routes, r.Size, r.Workers, r.Cards, r.GPUs, r.Mpps, r.Limit, mpps(r.InPlace), r.NsPacket, r.CPU)
		for _, s := range stages {
			fmt.Fprintf(t, "%.1f\t", r.Stages[s.String()])
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "median of %d rounds, each after verifying %d packets byte by byte\n", len(results[0].Rounds), results[0].Verified)
	fmt.Fprintln(w, "limit: the same loop and ports with no engine; in place: the GPUs, where they read and rewrite heads, and do nothing else. In ns of a worker per packet: the stages, of which wait is receiving and tx sending, which without cards write and read frames besides; CPU, all its work, idle turns not counted, and without cards less wait and tx.")
}

// mpps is a rate that there may be none of.
func mpps(rate float64) string {
	if rate == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", rate)
}
