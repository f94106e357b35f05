package load

import (
	"math"
	"slices"
	"testing"
	"time"
)

// all returns all times of a schedule, read in pieces.
func all(t *testing.T, s *Schedule) (times []time.Duration) {
	t.Helper()
	piece := make([]time.Duration, 97)
	for n := s.Next(piece); n > 0; n = s.Next(piece) {
		times = append(times, piece[:n]...)
	}
	if !slices.IsSorted(times) {
		t.Fatal("times are not in ascending order")
	}
	return times
}

func TestParseArrival(t *testing.T) {
	for s, want := range map[string]Arrival{"constant": {}, "poisson": {Kind: Poisson}, "burst:1": {Burst, 1}, "burst:32": {Burst, 32}} {
		if a, err := ParseArrival(s); err != nil || a != want || a.String() != s {
			t.Errorf("%s: %v, %v", s, a, err)
		}
	}
	for _, s := range []string{"", "burst", "burst:", "burst:0", "burst:-1", "burst:x", "burst:2000000", "Poisson"} {
		if a, err := ParseArrival(s); err == nil {
			t.Errorf("%q is %v", s, a)
		}
	}
}

func TestSchedulesHaveTheRate(t *testing.T) {
	const d = time.Second
	for _, a := range []Arrival{{}, {Kind: Poisson}, {Burst, 1}, {Burst, 7}, {Burst, 64}} {
		for _, rate := range []float64{999, 1e6 / 3} {
			for _, queues := range []int{1, 3} {
				total := 0
				for q := range queues {
					times := all(t, NewSchedule(a, rate, d, q, queues, 5))
					if last := times[len(times)-1]; last >= d {
						t.Errorf("%v, %v/s: a packet arrives at %v", a, rate, last)
					}
					total += len(times)
				}
				tolerance := float64(queues * max(a.Burst, 1))
				if a.Kind == Poisson {
					tolerance = 5 * math.Sqrt(rate)
				}
				if got := float64(total); math.Abs(got-rate) > tolerance {
					t.Errorf("%v, %d queues: %v packets in a second of %v", a, queues, got, rate)
				}
			}
		}
	}
}

// The packets of all queues together are equally spaced.
func TestConstantQueuesInterleave(t *testing.T) {
	var times []time.Duration
	for q := range 4 {
		times = append(times, all(t, NewSchedule(Arrival{}, 1e6, 10*time.Millisecond, q, 4, 1))...)
	}
	slices.Sort(times)
	for i, at := range times {
		if want := time.Duration(i) * time.Microsecond; (at - want).Abs() > 1 {
			t.Fatalf("packet %d arrives at %v, want %v", i, at, want)
		}
	}
}

func TestBurstsArriveTogether(t *testing.T) {
	times := all(t, NewSchedule(Arrival{Burst, 16}, 1e6, 10*time.Millisecond, 0, 1, 1))
	for i, at := range times {
		if want := time.Duration(i/16) * 16 * time.Microsecond; (at - want).Abs() > 1 {
			t.Fatalf("packet %d arrives at %v, want %v", i, at, want)
		}
	}
}

// The times between packets are distributed as 1 - exp(-x): Kolmogorov's distance is small, and each is
// independent of the one before.
func TestPoissonIsExponential(t *testing.T) {
	const rate = 1e4 // intervals are much longer than a nanosecond
	times := all(t, NewSchedule(Arrival{Kind: Poisson}, rate, 20*time.Second, 0, 1, 3))
	gaps := make([]float64, len(times)-1)
	for i := range gaps {
		gaps[i] = (times[i+1] - times[i]).Seconds() * rate
	}
	n := float64(len(gaps))
	covariance := 0.0
	for i := range len(gaps) - 1 {
		covariance += (gaps[i] - 1) * (gaps[i+1] - 1) / n
	}
	if math.Abs(covariance) > 5/math.Sqrt(n) {
		t.Errorf("covariance of adjacent gaps: %v", covariance)
	}
	slices.Sort(gaps)
	distance := 0.0
	for i, x := range gaps {
		distance = max(distance, math.Abs(float64(i)/n-(1-math.Exp(-x))))
	}
	if limit := 1.95 / math.Sqrt(n); distance > limit { // exceeded with a probability of 0.1 %
		t.Errorf("distance %v of %v gaps from the exponential distribution, at most %v", distance, n, limit)
	}
}

func TestConstantTimesDoNotDrift(t *testing.T) {
	s := NewSchedule(Arrival{}, 3e6, time.Hour, 0, 1, 1)
	times := make([]time.Duration, 1000)
	var last time.Duration
	for range 30_000 { // ten seconds
		last = times[s.Next(times)-1]
	}
	if want := 10*time.Second - 333*time.Nanosecond; (last - want).Abs() > time.Nanosecond {
		t.Errorf("packet 30 million arrives at %v, want %v", last, want)
	}
}

func TestScheduleAndRecorderDoNotAllocate(t *testing.T) {
	for _, a := range []Arrival{{}, {Kind: Poisson}, {Burst, 10}} {
		o, r := NewOffer(NewSchedule(a, 1e6, time.Hour, 0, 1, 1), time.Millisecond), NewRecorder(time.Millisecond)
		times := make([]time.Duration, 64)
		if n := testing.AllocsPerRun(500, func() {
			n := o.Next(times)
			o.Lost(times[n-1:])
			r.Departed(times[n-1]+5, times[:n-1])
		}); n != 0 {
			t.Errorf("%v: %v allocations", a, n)
		}
	}
}
