package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	bench "github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/ipsec/suite"
)

// choiceFlags are the flags of choice.
type choiceFlags struct {
	subjectFlags
	suites, mixes, loads []string
	options              bench.ChoiceOptions
}

func newChoiceCommand() *cobra.Command {
	var f choiceFlags
	c := &cobra.Command{
		Use:   "choice",
		Short: "Compare engine auto of an IPsec gateway with the best fixed engine",
		Long: `Measure the engines cpu and gpu at full load, and then engine auto and the better one of both
at several loads, which are percentages of the rate of the better one, in alternating rounds.
The ratio is the rate that auto delivers divided by that of the fixed engine at the same load;
the round with the median ratio is reported. Without a GPU, auto and the only fixed engine
are cpu. Every packet of a first run with auto is verified.

  warproute-bench choice --workers 8 --nics 7`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	f.addFlags(c, 100*time.Millisecond)
	addLanesFlag(c, &f.testbed.Lanes, testbed.DefaultLanes)
	fl := c.Flags()
	fl.IntVar(&f.options.Rounds, "rounds", 3, "trials of each engine at each load; the round with the median ratio is reported")
	fl.StringSliceVar(&f.suites, "suite", []string{"aes128gcm16", "chacha20poly1305", "aes128-sha256"}, "cipher suites by `NAME`, or all")
	fl.StringSliceVar(&f.mixes, "size", []string{"64", "512", "1408", "imix"}, "inner packet sizes in `BYTES`, or imix (64, 576 and 1408, 7:4:1)")
	fl.StringSliceVar(&f.loads, "loads", []string{"10", "50", "90", "120"}, "packets to offer in `PERCENT` of the best fixed engine's rate at full load")
	cli.CompleteValues(c, "suite", append(suiteNames(), "all")...)
	f.out.AddFlags(c)
	return c
}

func (f *choiceFlags) run(c *cobra.Command) (err error) {
	if err := f.check(c); err != nil {
		return cli.UsageError(err)
	}
	progress, end, err := f.begin(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	all, err := bench.Choice(f.options, progress.Step)
	if err != nil {
		return err
	}
	progress.Done()
	writeChoice(f.out.Text(c), all)
	return f.out.Write(c, all)
}

// check checks the flags.
func (f *choiceFlags) check(c *cobra.Command) (err error) {
	o := &f.options
	f.engine = "auto"
	if err := f.subjectFlags.check(c); err != nil {
		return err
	}
	o.Fixed = []string{"cpu"}
	if f.engine == "gpu" {
		o.Fixed = append(o.Fixed, "gpu")
	}
	if o.Suites = f.suites; len(f.suites) == 1 && f.suites[0] == "all" {
		o.Suites = suiteNames()
	}
	for _, name := range o.Suites {
		if _, err := suite.ByName(name); err != nil {
			return fmt.Errorf("--suite: %w", err)
		}
	}
	for _, text := range f.mixes {
		mix, err := parseSize(text)
		if err != nil {
			return err
		}
		o.Mixes = append(o.Mixes, mix)
	}
	if o.Loads, err = parseShares("loads", "full load", f.loads); err != nil {
		return err
	}
	if len(o.Suites)*len(o.Mixes)*len(o.Loads) == 0 {
		return errors.New("--suite, --size and --loads need a value")
	}
	o.Options, o.Trial = f.gateway(), f.trial
	return checkNumbers(number{"rounds", o.Rounds, 1, maxRounds})
}

// sizeText describes sizes of packets.
func sizeText(sizes []int) string {
	if len(sizes) == 1 {
		return strconv.Itoa(sizes[0]) + " bytes"
	}
	return "imix"
}

func writeChoice(w io.Writer, all []*bench.ChoiceResult) {
	r := all[0]
	fmt.Fprintf(w, "engine auto is %s, %s, %s, %d SAs, workers %d, NICs %d, lanes %s, trials of %v s; of %d rounds, the one with the median ratio\n", r.Engine, r.Family, r.Direction, r.SAs, r.Workers, r.NICs, cmp.Or(r.Lanes, testbed.DefaultLanes), r.Trial, len(r.Points[0].Ratios))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "suite\tsize\tcpu Mpps\tgpu Mpps\tload %\toffered\tauto\tbest\tratio\tauto p50 µs\tp99 µs\tbest p50 µs\tp99 µs\t")
	least, late := r.Points[0].Ratio, false
	for _, r := range all {
		for _, p := range r.Points {
			mark := ""
			if p.Overrun {
				mark, late = "*", true
			}
			least = min(least, p.Ratio)
			fmt.Fprintf(t, "%s\t%s\t%.3f\t%s\t%.4g\t%.3f%s\t%.3f\t%.3f\t%.3f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", r.Suite, sizeText(r.Sizes), r.Fixed["cpu"], optional(r.Fixed["gpu"]),
				100*p.Load, p.Offered, mark, p.Mpps, p.Best, p.Ratio, p.Auto.P50, p.Auto.P99, p.Fixed.P50, p.Fixed.P99)
		}
	}
	_ = t.Flush()
	fmt.Fprintf(w, `lowest median ratio: %.3f. cpu, gpu: rates at full load. auto, best: rates of engine auto and of the better fixed engine at the same load.
`, least)
	if late {
		fmt.Fprintln(w, "*: in one or more rounds, the emulated NICs could not offer this load")
	}
}
