// Package load measures a device under an open-loop load: packets arrive at scheduled times, whether or
// not the device keeps up.
//
// A Schedule gives the times of arrival. A Recorder counts packets and their latency from the scheduled
// arrival, so that a stall of the generator is measured too (coordinated omission). A Search finds the
// highest rate without loss (NDR) and with little loss (PDR). Run combines them for any device, which
// package testbed and the benchmarks implement.
package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Arrival is the distribution of the times between packets.
type Arrival struct {
	Kind  Kind
	Burst int // packets that arrive at the same time, if Kind is Burst
}

// Kind is a kind of distribution.
type Kind uint8

const (
	Constant Kind = iota // equal times
	Poisson              // exponentially distributed times
	Burst                // bursts at equal times
)

// maxBurst is the largest burst.
const maxBurst = 1 << 20

// ParseArrival parses constant, poisson or burst:N.
func ParseArrival(s string) (Arrival, error) {
	switch s {
	case "constant":
		return Arrival{Kind: Constant}, nil
	case "poisson":
		return Arrival{Kind: Poisson}, nil
	}
	if text, ok := strings.CutPrefix(s, "burst:"); ok {
		if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= maxBurst {
			return Arrival{Burst, n}, nil
		}
	}
	return Arrival{}, fmt.Errorf("%s: write constant, poisson or burst:N with N from 1 to %d", s, maxBurst)
}

func (a Arrival) String() string {
	switch a.Kind {
	case Poisson:
		return "poisson"
	case Burst:
		return fmt.Sprintf("burst:%d", a.Burst)
	}
	return "constant"
}

// Schedule is the times of the packets of one queue, from 0 until its end.
type Schedule struct {
	arrival  Arrival
	interval float64 // mean time between packets, or between bursts, in ns
	end      float64 // ns
	rnd      *rand.Rand

	next float64 // time of the next packet in ns
	step uint64  // packets or bursts at equal times so far
	left int     // packets of the burst
	base float64 // time of the first packet
}

// NewSchedule returns the schedule of a share of a rate in packets per second: queue number of count,
// whose packets lie between those of the other queues.
func NewSchedule(a Arrival, rate float64, end time.Duration, number, count int, seed uint64) *Schedule {
	s := &Schedule{
		arrival: a, interval: 1e9 / rate * float64(count), end: float64(end),
		rnd: rand.New(rand.NewPCG(seed, uint64(number))),
	}
	if a.Kind == Burst {
		s.interval *= float64(a.Burst)
		s.left = a.Burst
	}
	s.base = s.interval * float64(number) / float64(count)
	if a.Kind == Poisson {
		s.base = s.rnd.ExpFloat64() * s.interval
	}
	s.next = s.base
	return s
}

// Next writes the times of the next packets, in ascending order, and returns their number; 0 is the end.
func (s *Schedule) Next(times []time.Duration) int {
	for i := range times {
		if s.next >= s.end {
			return i
		}
		times[i] = time.Duration(s.next)
		s.advance()
	}
	return len(times)
}

// advance computes the time of the next packet. Equal times are multiplied, because sums would drift.
func (s *Schedule) advance() {
	switch s.arrival.Kind {
	case Poisson:
		s.next += s.rnd.ExpFloat64() * s.interval
		return
	case Burst:
		if s.left--; s.left > 0 {
			return
		}
		s.left = s.arrival.Burst
	}
	s.step++
	s.next = math.FMA(float64(s.step), s.interval, s.base)
}
