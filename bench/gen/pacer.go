package gen

import (
	"math"
	"time"

	"github.com/warproute/warproute/bench/load"
)

// pacer computes the number of packets that are due since the start, and when each was due. A delay does
// not reduce the rate: late packets are sent at once.
type pacer struct {
	perNs float64 // packets per ns; 0: no limit
	total uint64  // packets in all
	began time.Duration
	limit time.Duration // of sending, 0: none
	grace time.Duration // after the limit, for late packets

	schedule *load.Schedule // nil: equal times
	times    [2 * burst]time.Duration
	first, n int // of times: due after began; the times of the packets made so far precede them
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
	}
	if p.perNs > 0 && o.Arrival.Kind != load.Constant {
		end := p.limit
		if end == 0 {
			end = math.MaxInt64
		}
		p.schedule = load.NewSchedule(o.Arrival, o.Rate, end, number, senders, o.Seed)
		if p.read(); p.n == 0 {
			p.total = 0
		}
	} else if p.grace > 0 {
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
	if p.schedule != nil {
		return p.scheduled(elapsed, made), false
	}
	target := p.total
	if p.perNs > 0 {
		target = min(target, uint64(p.perNs*float64(elapsed))+1) // the first is due immediately
	}
	return int(min(target-min(target, made), math.MaxInt32)), false
}

// scheduled returns the number of packets due by a schedule, up to a burst.
func (p *pacer) scheduled(elapsed time.Duration, made uint64) (n int) {
	most := min(burst, p.n-p.first, int(min(p.total-min(p.total, made), burst)))
	for n < most && p.times[p.first+n] <= elapsed {
		n++
	}
	return n
}

// read reads the schedule. At its end, the number of packets is known.
func (p *pacer) read() {
	p.n = copy(p.times[:], p.times[p.first:p.n])
	p.first = 0
	p.n += p.schedule.Next(p.times[p.n:])
}

// take returns the time at which the next packet was due, and passes on to the one after it.
func (p *pacer) take(made uint64) time.Duration {
	at := p.next(made)
	if p.schedule == nil {
		return at
	}
	if p.first++; p.n-p.first < burst {
		p.read()
		if p.first == p.n {
			p.total = min(p.total, made+1)
		}
	}
	return at
}

// next returns the time at which the next packet is due.
func (p *pacer) next(made uint64) time.Duration {
	switch {
	case p.perNs == 0 || p.schedule != nil && p.first == p.n:
		return p.began
	case p.schedule != nil:
		return p.began + p.times[p.first]
	}
	return p.began + time.Duration(float64(made)/p.perNs)
}
