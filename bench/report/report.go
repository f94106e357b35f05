// Package report draws benchmark results as SVG: bars with the limit as a line, latencies versus load, and
// cumulative distributions of latencies. The same results give the same bytes.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/warproute/warproute/bench/forward"
	"github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/veth"
)

// Draw returns a plot of the JSON results of one measurement.
func Draw(title string, results []byte) (svg []byte, err error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(results, &list); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if len(list) == 0 {
		return nil, errors.New("read results: none")
	}
	for _, kind := range []struct {
		key  string // that only these results have
		draw func(title string, results []byte) ([]byte, error)
	}{
		{"loads", drawLoad}, {"points", drawLadder}, {"express_points", drawExpress}, {"suite", drawIPsec}, {"frame_bytes", drawForward}, {"percentiles_us", drawLatency}, {"bound", drawVeth}, {"rates", drawLookup},
	} {
		if _, ok := list[0][kind.key]; ok {
			return kind.draw(title, results)
		}
	}
	return nil, errors.New("read results: unknown kind")
}

// parse reads results of one type.
func parse[T any](results []byte) (list []T, err error) {
	if err = json.Unmarshal(results, &list); err != nil {
		err = fmt.Errorf("read results: %w", err)
	}
	return list, err
}

func drawForward(title string, results []byte) ([]byte, error) {
	list, err := parse[forward.Result](results)
	bars := barChart{title: title, unit: "Mpps"}
	for _, r := range list {
		bars.add(fmt.Sprintf("%s %s\n%s", r.Engine, r.Family, workers(r.Workers)), r.Mpps, limit(r.Limit, r.PCIeLimit))
	}
	return bars.draw(err)
}

func drawIPsec(title string, results []byte) ([]byte, error) {
	list, err := parse[ipsec.Result](results)
	bars := barChart{title: title, unit: "Gbit/s of inner IP packets"}
	for _, r := range list {
		size := "IMIX"
		if len(r.Sizes) == 1 {
			size = strconv.Itoa(r.Sizes[0]) + " B"
		}
		bars.add(fmt.Sprintf("%s %s\n%s %s\n%s", r.Engine, workers(r.Workers), size, r.Direction, r.Suite), r.Gbps, limit(r.Limit, r.PCIeLimit)*r.Gbps/r.Mpps)
	}
	return bars.draw(err)
}

func drawVeth(title string, results []byte) ([]byte, error) {
	list, err := parse[veth.Result](results)
	bars := barChart{title: title, unit: "Mpps, 60-byte packets"}
	for _, r := range list {
		if len(r.Rounds) > 0 {
			bars.add(r.Name, r.Median(), 0)
		}
	}
	return bars.draw(err)
}

// rate is a lookup rate of the CPU or of a GPU. Their reports differ in names and units.
type rate struct {
	Contender    string    `json:"contender"`
	Method       string    `json:"method"`
	Destinations string    `json:"destinations"`
	Batch        int       `json:"batch"`
	Millions     []float64 `json:"rounds_mlookups"`
	Billions     []float64 `json:"rounds_glookups"`
	Limit        float64   `json:"limit_glookups"`
}

func drawLookup(title string, results []byte) ([]byte, error) {
	list, err := parse[struct {
		Family string `json:"family"`
		Rates  []rate `json:"rates"`
	}](results)
	bars := barChart{title: title, unit: "million lookups per second"}
	for _, report := range list {
		for _, r := range report.Rates {
			median := func(rounds []float64) float64 {
				if len(rounds) == 0 {
					return 0
				}
				return rounds[len(rounds)/2]
			}
			label := fmt.Sprintf("%s%s %s\n%s", r.Contender, r.Method, report.Family, r.Destinations)
			if r.Batch > 0 {
				label += fmt.Sprintf(" %d", r.Batch)
			}
			bars.add(label, median(r.Millions)+1000*median(r.Billions), 1000*r.Limit)
		}
	}
	return bars.draw(err)
}

func drawLatency(title string, results []byte) ([]byte, error) {
	list, err := parse[forward.Latency](results)
	var curves []curve
	for _, l := range list {
		curves = append(curves, curve{fmt.Sprintf("%s, %d packets", l.Engine, l.Packets), l.Percentiles})
	}
	if err != nil {
		return nil, err
	}
	return drawCurves(title, "latency of a chunk in µs", curves)
}

// limit returns the lower one of two limits; 0 means none.
func limit(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func workers(n int) string {
	if n == 1 {
		return "1 worker"
	}
	return fmt.Sprintf("%d workers", n)
}
