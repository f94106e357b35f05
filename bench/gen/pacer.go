package gen

import (
	"math"
	"time"
)

// pacer says how many packets are due. It counts from the start, not from one
// packet to the next, so that being late once delays none of those that follow:
// they are sent at once until the count is right again.
type pacer struct {
	perNs float64 // packets; 0: any number is due at any time
	total uint64  // packets in all
	began time.Duration
	limit time.Duration // of sending, 0: none
	grace time.Duration // after the limit, for what was due before
}

// grace is for a machine that is busy with something else when the time is over.
const grace = 50 * time.Millisecond

// newPacer makes the pacer of one of several senders, which share rate and count.
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

// due is how many packets are due now, when so many have been made, and whether
// the time is over.
func (p *pacer) due(now time.Duration, made uint64) (n int, over bool) {
	elapsed := now - p.began
	if p.limit > 0 && elapsed >= p.limit+p.grace {
		return 0, true
	}
	target := p.total
	if p.perNs > 0 {
		target = min(target, uint64(p.perNs*float64(elapsed))+1) // the first is due at once
	}
	return int(min(target-min(target, made), math.MaxInt32)), false
}

// next is when the packet is due that follows those made.
func (p *pacer) next(made uint64) time.Duration {
	if p.perNs == 0 {
		return p.began
	}
	return p.began + time.Duration(float64(made)/p.perNs)
}
