package status

import (
	"fmt"
	"io"

	"github.com/warproute/warproute/dataplane"
)

// Latency is the latency of chunks in one stage, in nanoseconds, exact to 1 %: an element of
// `show latency`.
type Latency struct {
	Stage  string  `json:"stage"`   // stage: wait, engine, order, tx, total
	Chunks uint64  `json:"chunks"`  // number of chunks
	Mean   float64 `json:"mean_ns"` // mean latency, ns
	P50    uint64  `json:"p50_ns"`  // median latency, ns
	P90    uint64  `json:"p90_ns"`  // 90th percentile, ns
	P99    uint64  `json:"p99_ns"`  // 99th percentile, ns
	P999   uint64  `json:"p999_ns"` // 99.9th percentile, ns
}

// Latencies lists the stages in order, the total last.
func Latencies(s *Snapshot) []Latency {
	all := make([]Latency, dataplane.NumStages)
	for i := range all {
		h := &s.Stats.Stages[i]
		all[i] = Latency{
			Stage: dataplane.Stage(i).String(), Chunks: h.Count, Mean: h.Mean(),
			P50: h.Quantile(0.5), P90: h.Quantile(0.9), P99: h.Quantile(0.99), P999: h.Quantile(0.999),
		}
	}
	return all
}

// WriteLatencies writes one row per stage.
func WriteLatencies(w io.Writer, all []Latency) error {
	t := newTable(w, "STAGE", "CHUNKS", "MEAN", "P50", "P90", "P99", "P99.9", "DESCRIPTION")
	for _, l := range all {
		t.row(l.Stage, l.Chunks, Nanoseconds(uint64(l.Mean)), Nanoseconds(l.P50), Nanoseconds(l.P90), Nanoseconds(l.P99), Nanoseconds(l.P999), stageDescriptions[l.Stage])
	}
	return t.flush()
}

// stageDescriptions describes the stages of Latency.
var stageDescriptions = map[string]string{
	"wait":   "first packet received until chunk submitted",
	"engine": "submitted until results polled",
	"order":  "results polled until all earlier chunks transmitted",
	"tx":     "earlier chunks transmitted until the kernel is notified of the transmit rings",
	"total":  "first packet received until the kernel is notified",
}

// Nanoseconds formats a time with three digits and a unit: 812ns, 4.07µs, 1.20ms.
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

// threeDigits formats a number with at least three significant digits.
func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
