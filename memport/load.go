package memport

import (
	"sync/atomic"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/umem"
)

// Arrivals is the schedule of a load. Its times are relative to the begin of the load.
type Arrivals interface {
	// Next writes the times of the next packets, in ascending order, and returns their number; 0 is
	// the end of the load.
	Next(times []time.Duration) int
	// Lost counts packets that arrived at these times and found the receive ring full.
	Lost(times []time.Duration)
}

// Departures records transmitted packets.
type Departures interface {
	// Departed records packets that leave now, by their times of arrival.
	Departed(now time.Duration, arrivals []time.Duration)
}

// Load is an open-loop load: packets arrive at their scheduled times, whether or not the router keeps
// up. A packet that finds the receive ring full is lost, as with a NIC.
//
// The time of a packet's arrival is the scheduled one. If the emulated NIC itself is late, the delay
// counts as latency, so a stall of the generator hides nothing (coordinated omission).
//
//	Arrivals ─► receive ring ─► worker ─► transmit ring ─► Departures
//	              └─► lost
//
// One NIC may serve both rings, or each its own. They share no written field but stamps, which the
// rings order.
type Load struct {
	arrivals   Arrivals
	departures Departures
	stamps     []time.Duration // by frame: arrival of its packet
	began      atomic.Int64    // on batch.Clock; 0: not yet

	_      padding
	times  [readAhead]time.Duration // of the next packets: times[at:n]; by the NIC of the receive ring
	at, n  int
	lag    Lag
	onTime time.Duration // when no packet was late

	_         padding
	leaving   [burst]time.Duration // by the NIC of the transmit ring
	delivered uint64

	_        padding
	ended    atomic.Bool   // all packets have arrived
	departed atomic.Uint64 // copy of delivered
}

// readAhead is the number of arrivals that are scheduled together.
const readAhead = 256

// RingSize is the number of received packets that wait for the worker before further ones are lost.
const RingSize = ringSize

// Offer makes in receive a load and out record its departures. The queues must be of one worker, and
// need an emulated NIC. Call it after Play and before the router starts; Begin begins the load.
func Offer(in, out *Queue, a Arrivals, d Departures) *Load {
	l := &Load{arrivals: a, departures: d, stamps: mapped[time.Duration](len(in.mem) / umem.FrameSize)}
	in.offered, out.measured = l, l
	return l
}

// Begin begins the load at a time of batch.Clock. Any goroutine may call it.
func (l *Load) Begin(at time.Duration) { l.began.Store(int64(at)) }

// Ended reports whether all packets have arrived or were lost. Any goroutine may call it.
func (l *Load) Ended() bool { return l.ended.Load() }

// Delivered returns the number of transmitted packets. Any goroutine may call it.
func (l *Load) Delivered() uint64 { return l.departed.Load() }

// Lag is the delay of packets by the emulated NIC itself.
type Lag struct {
	Longest time.Duration
	Last    time.Duration // of the last packet
	Behind  time.Duration // at the end of the load, since when some packet has been late
}

// Lag returns the delays by the emulated NIC. Call it after Ended.
func (l *Load) Lag() Lag { return l.lag }

// now returns the time since the begin, negative before it.
func (l *Load) now() time.Duration {
	began := l.began.Load()
	if began == 0 {
		return -1
	}
	return batch.Clock() - time.Duration(began)
}

// due returns the times of up to a burst of packets that have arrived.
func (l *Load) due(now time.Duration) []time.Duration {
	if l.at == l.n {
		if now < 0 || l.ended.Load() {
			return nil
		}
		if l.at, l.n = 0, l.arrivals.Next(l.times[:]); l.n == 0 {
			l.ended.Store(true)
			return nil
		}
	}
	times := l.times[l.at:min(l.at+burst, l.n)]
	for i, t := range times {
		if t > now {
			l.onTime = now
			return times[:i]
		}
	}
	return times
}

// offer receives a burst of the packets that have arrived, and drops those that find no frame.
func (q *Queue) offer(now time.Duration) {
	l := q.offered
	times := l.due(now)
	if len(times) == 0 {
		return
	}
	l.lag = Lag{max(l.lag.Longest, now-times[0]), now - times[len(times)-1], now - l.onTime}
	l.at += len(times)
	for len(times) > 0 {
		frames, fill := q.rx.peekPosted(len(times))
		n := q.due(len(frames))
		if n == 0 {
			l.arrivals.Lost(times)
			return
		}
		q.play(frames[:n], fill[:n])
		for i, f := range frames[:n] {
			l.stamps[f.Addr/umem.FrameSize] = times[i]
		}
		q.rx.complete(n)
		times = times[n:]
	}
}

// depart transmits a burst and records it. The clock is read after the packets are in the ring.
func (q *Queue) depart() {
	frames, _ := q.tx.peekPosted(burst)
	if len(frames) == 0 {
		return
	}
	l := q.measured
	now := l.now()
	q.read(frames)
	for i, f := range frames {
		l.leaving[i] = l.stamps[f.Addr/umem.FrameSize]
	}
	l.departures.Departed(now, l.leaving[:len(frames)])
	q.tx.complete(len(frames))
	l.delivered += uint64(len(frames))
	l.departed.Store(l.delivered)
}
