package load

import (
	"time"

	"github.com/warproute/warproute/internal/hist"
)

// Offer is a schedule whose packets are counted from the end of a warm-up. It belongs to the goroutine
// that offers the packets.
type Offer struct {
	*Schedule
	warmup time.Duration

	total         uint64 // packets, with the warm-up
	totalLost     uint64
	offered, lost uint64 // without it
}

// NewOffer returns the offer of a schedule.
func NewOffer(s *Schedule, warmup time.Duration) *Offer { return &Offer{Schedule: s, warmup: warmup} }

// Next is Schedule.Next.
func (o *Offer) Next(times []time.Duration) int {
	n := o.Schedule.Next(times)
	o.total += uint64(n)
	o.offered += o.measured(times[:n])
	return n
}

// Lost counts packets that no frame was free for, by their times of arrival.
func (o *Offer) Lost(times []time.Duration) {
	o.totalLost += uint64(len(times))
	o.lost += o.measured(times)
}

// Expected returns the number of packets that are to be delivered.
func (o *Offer) Expected() uint64 { return o.total - o.totalLost }

// measured returns the number of times after the warm-up. They are in ascending order.
func (o *Offer) measured(times []time.Duration) uint64 {
	for i, t := range times {
		if t >= o.warmup {
			return uint64(len(times) - i)
		}
	}
	return 0
}

// Recorder counts delivered packets that arrived after the warm-up, and their latency. It belongs to the
// goroutine that transmits.
type Recorder struct {
	warmup    time.Duration
	delivered uint64
	latency   hist.Snapshot
	longest   time.Duration
}

// NewRecorder returns an empty recorder.
func NewRecorder(warmup time.Duration) *Recorder { return &Recorder{warmup: warmup} }

// Departed records packets that leave now, by their times of arrival.
func (r *Recorder) Departed(now time.Duration, arrivals []time.Duration) {
	for _, t := range arrivals {
		if t < r.warmup {
			continue
		}
		r.delivered++
		r.longest = max(r.longest, now-t)
		r.latency.Record(uint64(max(now-t, 0)), 1)
	}
}
