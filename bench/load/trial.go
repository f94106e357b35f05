package load

import (
	"fmt"
	"time"

	"github.com/warproute/warproute/internal/hist"
)

// Trial is the result of an offered load, without its warm-up. The zero value is empty.
type Trial struct {
	Rate      float64 // packets per second that were asked for
	Seconds   float64
	Offered   uint64
	Delivered uint64
	Lost      uint64

	Latency hist.Snapshot // from scheduled arrival to departure, in ns
	Longest time.Duration

	Lag    time.Duration // longest delay by the generator itself
	EndLag time.Duration // of the last packets
	Behind time.Duration // at the end, since when some packet has been late
	Queue  int           // packets that fit in a receive ring
	Queues int

	CPU    float64                   // ns of the workers that packets are offered to, without idle polls
	Sent   uint64                    // packets transmitted in the time of CPU
	Stages map[string]*hist.Snapshot // of chunks in ns, if the device measures them
	GPU    GPU                       // energy and utilization
	Engine string                    // of the device
}

// Add adds the counts of a queue.
func (t *Trial) Add(o *Offer, r *Recorder) {
	t.Offered += o.offered
	t.Lost += o.lost
	t.Delivered += r.delivered
	t.Latency.Add(&r.latency)
	t.Longest = max(t.Longest, r.longest)
}

// Join adds a later round of the same trial.
func (t *Trial) Join(u *Trial) {
	t.Offered, t.Delivered, t.Lost = t.Offered+u.Offered, t.Delivered+u.Delivered, t.Lost+u.Lost
	t.Seconds += u.Seconds
	t.Latency.Add(&u.Latency)
	t.Longest, t.Lag, t.EndLag = max(t.Longest, u.Longest), max(t.Lag, u.Lag), max(t.EndLag, u.EndLag)
	t.Behind += u.Behind
	t.CPU, t.Sent = t.CPU+u.CPU, t.Sent+u.Sent
	t.GPU.Add(u.GPU)
	t.Rate, t.Queue, t.Queues, t.Engine = u.Rate, u.Queue, u.Queues, u.Engine
	if t.Stages == nil {
		t.Stages = map[string]*hist.Snapshot{}
	}
	for name, s := range u.Stages {
		if t.Stages[name] == nil {
			t.Stages[name] = &hist.Snapshot{}
		}
		t.Stages[name].Add(s)
	}
}

// Check returns an error unless each offered packet was either delivered or lost.
func (t *Trial) Check() error {
	if t.Offered != t.Delivered+t.Lost {
		return fmt.Errorf("%d packets were offered, %d delivered and %d lost: %d are missing",
			t.Offered, t.Delivered, t.Lost, int64(t.Offered-t.Delivered-t.Lost))
	}
	return nil
}

// Loss returns the share of lost packets.
func (t *Trial) Loss() float64 {
	if t.Offered == 0 {
		return 0
	}
	return float64(t.Lost) / float64(t.Offered)
}

// Throughput returns the delivered packets per second.
func (t *Trial) Throughput() float64 { return float64(t.Delivered) / t.Seconds }

// Carried returns the delivered packets per second. A generator that could not offer the rate needed longer
// than the trial.
func (t *Trial) Carried() float64 {
	if !t.Overrun() {
		return t.Throughput()
	}
	return float64(t.Delivered) / (t.Seconds + t.EndLag.Seconds())
}

// Overrun reports whether the generator could not offer the rate: it has been late for half of the time. A
// stall does not count, after which it catches up.
func (t *Trial) Overrun() bool { return t.Behind.Seconds() > t.Seconds/2 }

// Stalled reports whether a stall of the generator can have caused losses: the packets that became due in
// it fill half of a ring.
func (t *Trial) Stalled() bool {
	return t.Lost > 0 && t.Lag.Seconds()*t.Rate/float64(max(t.Queues, 1)) > float64(t.Queue)/2
}

// Latency is the quantiles of a latency in µs.
type Latency struct {
	P50  float64 `json:"p50_us"`  // median
	P99  float64 `json:"p99_us"`  // 99th percentile
	P999 float64 `json:"p999_us"` // 99.9th percentile
	Max  float64 `json:"max_us"`  // the longest one; exact, where percentiles are within 1 %
}

// NewLatency returns the quantiles of a distribution in ns. longest is exact, quantiles are within 1 %.
func NewLatency(s *hist.Snapshot, longest time.Duration) Latency {
	us := func(q float64) float64 { return float64(min(s.Quantile(q), uint64(longest))) / 1e3 }
	return Latency{us(0.5), us(0.99), us(0.999), float64(longest) / 1e3}
}

// Percentiles returns the latencies in µs that 1 %, 2 % ... 99 % of the packets do not exceed.
func Percentiles(s *hist.Snapshot) []float64 {
	all := make([]float64, 99)
	for i := range all {
		all[i] = float64(s.Quantile(float64(i+1)/100)) / 1e3
	}
	return all
}
