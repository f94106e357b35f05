package gen

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if tr := r.Traffic; tr != nil {
		size := fmt.Sprintf("%d-byte", tr.Size)
		if tr.IMIX {
			size = "IMIX"
		}
		fmt.Fprintf(t, "traffic\t%s %s frames, %d flows, %s to %s\n", size, tr.Family, tr.Flows, tr.Src, tr.Dst)
	}
	if s := r.Send; s != nil {
		writeVolume(t, "sent", &s.Volume)
		fmt.Fprintf(t, "limit\t%s (%.0f %% of the busy time is the port's transmit)\n", s.Limit, 100*s.TransmitShare)
		if s.Arrival != "" {
			fmt.Fprintf(t, "arrival\t%s, sent up to %v late, which counts as latency\n", s.Arrival, micro(s.MaxLag))
		}
	}
	if c := r.Receive; c != nil {
		writeVolume(t, "received", &c.Volume)
		fmt.Fprintf(t, "lost\t%d (%.4g %%)", c.Lost, c.LossPercent)
		if c.Missed > 0 {
			fmt.Fprintf(t, "; the receiver was too slow for %d frames", c.Missed)
		}
		fmt.Fprintf(t, "\nfaults\t%d duplicates, %d reordered, %d corrupted, in %d flows\n", c.Duplicates, c.Reordered, c.Corrupted, c.FaultyFlows)
		if c.Unknown > 0 {
			fmt.Fprintf(t, "unknown\t%d frames of other runs or programs\n", c.Unknown)
		}
		if l := c.Latency; l != nil {
			fmt.Fprintf(t, "latency\tp50 %v, p90 %v, p99 %v, p99.9 %v, max %v\n", micro(l.P50), micro(l.P90), micro(l.P99), micro(l.P999), micro(l.Max))
		}
	}
	return t.Flush()
}

func writeVolume(w io.Writer, what string, v *Volume) {
	port := v.Port
	if v.Mode != "" {
		port += " (" + v.Mode + ")"
	}
	if v.Packets == 0 {
		fmt.Fprintf(w, "%s\tno packet on %s\n", what, port)
		return
	}
	fmt.Fprintf(w, "%s\t%d packets in %.3f s on %s: %s packets/s, %s bit/s on the wire\n",
		what, v.Packets, v.Seconds, port, scaled(v.PacketsPerSecond), scaled(v.BitsPerSecond))
}

// scaled formats a number with four digits and a decimal prefix.
func scaled(v float64) string {
	for _, p := range []struct {
		unit float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= p.unit {
			return fmt.Sprintf("%.4g %s", v/p.unit, p.name)
		}
	}
	return fmt.Sprintf("%.4g ", v)
}

// micro rounds a latency to its accuracy.
func micro(d time.Duration) time.Duration {
	if d >= time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Nanosecond)
}
