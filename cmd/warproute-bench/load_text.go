package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
)

// writeLoad writes the result as text.
func writeLoad(w io.Writer, r *testbed.LoadResult) {
	size, secured := sizeText(r.Sizes), "forwarding"
	if r.Suite != "" {
		secured = fmt.Sprintf("%s, %s, %d SAs, lanes %s", r.Suite, r.Direction, r.SAs, r.Lanes)
	}
	fmt.Fprintf(w, "engine %s, %s, %s, %s, %d routes, workers %d, NICs %d, GPUs %d, DMA %s\n",
		r.Engine, r.Family, secured, size, r.Routes, r.Workers, r.NICs, r.GPUs, r.DMA)
	fmt.Fprintf(w, "arrival %s, trials of %v s, ring of %d packets, verified packets %d\n", r.Arrival, r.Trial, r.Ring, r.Verified)
	for _, f := range []struct {
		name string
		*load.Found
	}{{"NDR", r.NDR}, {"PDR", r.PDR}} {
		if f.Found != nil {
			writeFound(w, f.name, f.Found)
		}
	}
	fmt.Fprintln(w)
	writeSteps(w, r.Loads)
	for _, u := range r.Unmeasured {
		fmt.Fprintf(w, "not measured: %s\n", u)
	}
}

func writeFound(w io.Writer, name string, f *load.Found) {
	if f.Mpps == 0 {
		fmt.Fprintf(w, "%s none: each rate that was tried lost more than %v %% of the packets\n", name, 100*f.Goal)
		return
	}
	cause := map[load.Limit]string{load.ByRouter: "the router", load.ByGenerator: "the emulated NIC, not the router", load.ByMax: "--max-rate"}[f.Limit]
	if cause == "" {
		cause = "nothing that was tried"
	}
	precision := "no higher rate was tried"
	if f.Width < 1 {
		precision = fmt.Sprintf("the lowest rate that failed is %.2g %% higher", 100*f.Width/(1-f.Width))
	}
	fmt.Fprintf(w, "%s %.3f Mpps, limited by %s; trials at this rate: %d within %v %% loss, %d above; %s\n",
		name, f.Mpps, cause, len(f.Trials), 100*f.Goal, f.Failed, precision)
	switch {
	case f.Ended && len(f.Trials) <= f.Failed:
		fmt.Fprintln(w, "  not confirmed: --search-time ended the search; shorter trials passed")
	case f.Ended:
		fmt.Fprintln(w, "  --search-time ended the search before --resolution was reached")
	}
}

func writeSteps(w io.Writer, steps []load.Step) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "load\toffered Mpps\tdelivered\tloss %\tp50 µs\tp99 µs\tp99.9 µs\tmax µs\tCPU ns/packet\tGPU W\tGPU %\tgenerator lag µs\t")
	late := false
	for _, s := range steps {
		name := "-"
		if s.Share > 0 {
			name = fmt.Sprintf("%.4g %% %s", 100*s.Share, s.Of)
		}
		mark := ""
		if s.Overrun {
			mark, late = "*", true
		}
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.4g\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%s\t%s\t%.1f%s\t\n",
			name, s.Mpps, s.Throughput, 100*s.LossRatio, s.P50, s.P99, s.P999, s.Max, s.CPU, measured(s.Watts), measured(s.Utilization), s.Lag, mark)
	}
	_ = t.Flush()
	fmt.Fprint(w, `latency: from scheduled arrival at one NIC to departure at the other. generator lag: its longest own delay, a part of max.
CPU: ns of workers per packet, without idle polls. GPU W: mean power of all GPUs. GPU %: time in which a kernel of any process was running.
`)
	if late {
		fmt.Fprintln(w, "*: the emulated NIC could not offer this rate; use --nics 2 or --dma none")
	}
}

// measured formats a value that may not have been measured.
func measured(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *v)
}
