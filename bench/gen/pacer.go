package gen

import (
	"math"
	"time"
)

// pacer computes the number of packets that are due since the start. A delay does not reduce the rate:
// late packets are sent at once.
type pacer struct {
	perNs float64 // packets per ns; 0: no limit
	total uint64  // packets in all
	began time.Duration
	limit time.Duration // of sending, 0: none
	grace time.Duration // after the limit, for late packets
}

// grace is the time after the limit to send late packets on a busy machine.
const grace = 50 * time.Millisecond

// newPacer returns the pacer of one of several senders that share rate and count.
func newPacer(o Options, number, senders int) pacer {
	p := pacer{perNs: o.Rate / 1e9 / float64(senders), limit: o.Duration, total: math.MaxUint64}
	if o.Count > 0 {
		p.total = o.Count / uint64(senders)
		if uint64(number) < o.Count%uint64(senders) {
			p.total++
		}
	}
	if p.perNs > 0 && p.limit > 0 {
		p.grace = grace
		p.total = min(p.total, max(1, uint64(math.Round(p.perNs*float64(p.limit)))))
	}
	return p
}

// due returns the number of packets due after made packets, and whether the time is over.
func (p *pacer) due(now time.Duration, made uint64) (n int, over bool) {
	elapsed := now - p.began
	if p.limit > 0 && elapsed >= p.limit+p.grace {
		return 0, true
	}
	target := p.total
	if p.perNs > 0 {
		target = min(target, uint64(p.perNs*float64(elapsed))+1) // the first is due immediately
	}
	return int(min(target-min(target, made), math.MaxInt32)), false
}

// next returns the time at which the next packet is due.
func (p *pacer) next(made uint64) time.Duration {
	if p.perNs == 0 {
		return p.began
	}
	return p.began + time.Duration(float64(made)/p.perNs)
}
