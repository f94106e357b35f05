package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/warproute/warproute/bench/gpulookup"
)

func writeGPULookup(w io.Writer, o gpulookup.Options, r *gpulookup.Report) {
	fmt.Fprintf(w, "%s, %d routes, table %s: %s\n", r.Family, r.Routes, r.Table, r.Source)
	fmt.Fprintf(w, "%s, driver for %s; table of %.1f MB; %d addresses of each kind, %d verified per method\n\n",
		r.Device, r.Driver, float64(r.TableBytes)/1e6, r.Addresses, r.Verified)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "METHOD\tCHUNK\tDESTINATIONS\tG/s\tMIN\tMAX\tLIMIT\tSHARE")
	for _, rate := range r.Rates {
		chunk := "-"
		if rate.Chunk > 0 {
			chunk = fmt.Sprintf("%d Ki", rate.Chunk>>10)
		}
		m, limit := rate.Median(), "-\t-"
		if rate.Limit > 0 {
			limit = fmt.Sprintf("%.2f\t%.0f%%", rate.Limit, 100*m/rate.Limit)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.2f\t%.2f\t%.2f\t%s\n", rate.Method, chunk, rate.Destinations, m, rate.Rounds[0], rate.Rounds[len(rate.Rounds)-1], limit)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "LIMIT\tGB/s")
	l := r.Limits
	for _, row := range []struct {
		name  string
		value float64
	}{
		{"copy to the device", l.ToDevice}, {"copy to the host", l.ToHost}, {"copy both ways at once, each", l.BothWays},
		{"kernel reads host memory", l.MappedRead},
	} {
		fmt.Fprintf(t, "%s\t%.1f\n", row.name, row.value)
	}
	fmt.Fprintf(t, "kernel reads random words in 64 MiB of the table\t%.1f G/s\n", l.RandomReads)
	_ = t.Flush()
	fmt.Fprintf(w, "\nmedian of %d alternating rounds of %v; all results of each round are compared with the table in Go\n", o.Rounds, o.Duration)
	fmt.Fprintln(w, "device: addresses and results in GPU memory; LIMIT is one random read of the table per address, and caches can")
	fmt.Fprintln(w, "  be faster. At rest: the table may be in non-coherent caches")
	fmt.Fprintln(w, "others: addresses and results in pinned host memory; LIMIT is the same without lookups")
	fmt.Fprintln(w, "  copied: by 4 streams; mapped: accessed by launched kernels; resident: by a resident kernel")
	fmt.Fprintf(w, "  with %d chunks in flight\n", gpulookup.ResidentChunks)
	if r.Family == "IPv6" {
		fmt.Fprintln(w, "columns: upper halves (8 bytes, always read) and lower halves (8 bytes, read for routes longer than /64)")
	}
	fmt.Fprintln(w)
}
