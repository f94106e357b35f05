package ladder

import (
	"slices"
	"time"

	"github.com/warproute/warproute/internal/hist"
)

// Result is the result of a measurement. Values are medians of the rounds.
type Result struct {
	GPU      string  `json:"gpu"`                     // name of the device
	Table    string  `json:"table"`                   // name of the routing table
	Routes   int     `json:"routes"`                  // in the table
	InFlight int     `json:"in_flight"`               // chunks, of mpps
	Load     float64 `json:"load"`                    // of the first rung's mpps at the same size, offered to each rung
	Rounds   int     `json:"rounds"`                  // of which each value is the median
	Verified int     `json:"verified_packets"`        // compared with the CPU engine's before the measurement, of all rungs
	PCIe     float64 `json:"pcie_limit_mpps"`         // of a kernel that reads and writes headers in place, and does nothing else
	Points   []Point `json:"points"`                  // by rung, then by size
	Seconds  float64 `json:"seconds_per_measurement"` // duration of a measurement
}

// First returns the point of the first rung at a size.
func (r *Result) First(packets int) Point {
	i := slices.IndexFunc(r.Points, func(p Point) bool { return p.Packets == packets })
	return r.Points[i]
}

// Point is a rung at a size of chunks.
type Point struct {
	Rung       string  `json:"rung"`                // name
	Packets    int     `json:"packets"`             // per chunk
	Mpps       float64 `json:"mpps"`                // with several chunks in flight
	CPU        float64 `json:"cpu_share"`           // of the chunks of mpps, which the CPU engine executed
	One        float64 `json:"mpps_one"`            // with one chunk in flight
	OneCPU     float64 `json:"cpu_share_one"`       // of the chunks of mpps_one, p50_us and p99_us
	P50        float64 `json:"p50_us"`              // latency with one chunk in flight, from Submit to Done
	P99        float64 `json:"p99_us"`              // 99th percentile of the same
	LoadP50    float64 `json:"load_p50_us"`         // latency at the load, from the time at which the chunk was due
	LoadP99    float64 `json:"load_p99_us"`         // 99th percentile of the same
	Mixed      float64 `json:"mixed_mpps"`          // with several chunks in flight, beside express chunks of 60 packets, one every 50 µs
	ExpressP50 float64 `json:"express_p50_us"`      // latency of these, from the time at which they were due
	ExpressP99 float64 `json:"express_p99_us"`      // 99th percentile of the same
	Kernel     float64 `json:"kernel_us,omitempty"` // time of a chunk's kernels on the device, from the first one's start to the last one's end; 0 for resident kernels
	InPlace    float64 `json:"in_place_us"`         // of a chunk at the in-place PCIe limit

	Rounds []float64 `json:"rounds_mpps"` // mpps of each round
}

// sample is a rung at a size in one round.
type sample struct {
	mpps, one, p50, p99, loadP50, loadP99, mixed, expressP50, expressP99, kernel, byCPU, oneByCPU float64
}

// newPoint returns the medians of samples.
func newPoint(name string, packets int, samples []sample, pcie float64) Point {
	median := func(of func(*sample) float64) float64 {
		var all []float64
		for i := range samples {
			all = append(all, of(&samples[i]))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	p := Point{
		Rung: name, Packets: packets, InPlace: float64(packets) / pcie,
		Mpps: median(func(s *sample) float64 { return s.mpps }), One: median(func(s *sample) float64 { return s.one }),
		P50: median(func(s *sample) float64 { return s.p50 }), P99: median(func(s *sample) float64 { return s.p99 }),
		LoadP50: median(func(s *sample) float64 { return s.loadP50 }), LoadP99: median(func(s *sample) float64 { return s.loadP99 }),
		Mixed:      median(func(s *sample) float64 { return s.mixed }),
		ExpressP50: median(func(s *sample) float64 { return s.expressP50 }), ExpressP99: median(func(s *sample) float64 { return s.expressP99 }),
		CPU: median(func(s *sample) float64 { return s.byCPU }), OneCPU: median(func(s *sample) float64 { return s.oneByCPU }),
		Kernel: median(func(s *sample) float64 { return s.kernel }),
	}
	for _, s := range samples {
		p.Rounds = append(p.Rounds, s.mpps)
	}
	return p
}

// quantiles returns the median and the 99th percentile of a distribution in ns, in µs.
func quantiles(s *hist.Snapshot) (p50, p99 float64) {
	return float64(s.Quantile(0.5)) / 1e3, float64(s.Quantile(0.99)) / 1e3
}

// mpps returns a rate in million packets per second.
func mpps(packets int, d time.Duration) float64 { return float64(packets) / d.Seconds() / 1e6 }
