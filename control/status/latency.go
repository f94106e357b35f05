package status

import (
	"fmt"
	"io"

	"github.com/warproute/warproute/dataplane"
)

// Latency is one stage of the chunks' way: an element of `show latency`. Times
// are in nanoseconds, exact to 1 %.
type Latency struct {
	Stage string  `json:"stage"`
	Count uint64  `json:"count"` // of chunks
	Mean  float64 `json:"mean_ns"`
	P50   uint64  `json:"p50_ns"`
	P90   uint64  `json:"p90_ns"`
	P99   uint64  `json:"p99_ns"`
	P999  uint64  `json:"p999_ns"`
}

// Latencies lists the stages in their order, the total last.
func Latencies(s *Snapshot) []Latency {
	all := make([]Latency, dataplane.NumStages)
	for i := range all {
		h := &s.Stats.Stages[i]
		all[i] = Latency{
			Stage: dataplane.Stage(i).String(), Count: h.Count, Mean: h.Mean(),
			P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), P999: h.Quantile(0.999),
		}
	}
	return all
}

// WriteLatencies writes a row for each stage.
func WriteLatencies(w io.Writer, all []Latency) error {
	t := newTable(w, "STAGE", "CHUNKS", "MEAN", "P50", "P90", "P99", "P99.9", "WHAT")
	for _, l := range all {
		t.row(l.Stage, l.Count, Nanoseconds(uint64(l.Mean)), Nanoseconds(l.P50), Nanoseconds(l.P90), Nanoseconds(l.P99), Nanoseconds(l.P999), stageMeanings[l.Stage])
	}
	return t.flush()
}

var stageMeanings = map[string]string{
	"wait":   "first packet received to chunk submitted",
	"engine": "submitted to results seen",
	"order":  "results seen to every earlier chunk transmitted",
	"tx":     "that to packets in the transmit rings and the kernel told",
	"total":  "first packet received to the kernel told",
}

// Nanoseconds writes a time with three digits and its unit: 812ns, 4.07µs, 1.20ms.
func Nanoseconds(ns uint64) string {
	if ns < 1000 {
		return fmt.Sprintf("%dns", ns)
	}
	v := float64(ns)
	for _, unit := range []string{"µs", "ms"} {
		if v /= 1000; v < 999.5 {
			return threeDigits(v) + unit
		}
	}
	return threeDigits(v/1000) + "s"
}

func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
