package choice

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// truth is a cost to learn; noise is a relative standard deviation.
type truth struct {
	costs terms
	noise float64
}

func (t truth) time(rnd *rand.Rand, x *terms) float64 {
	sum := 0.
	for i := range x {
		sum += t.costs[i] * x[i]
	}
	return sum * max(0.3, 1+t.noise*rnd.NormFloat64())
}

func chunk(n, size, waiting int) terms {
	return terms{1, float64(n), float64(n * size), float64(waiting)}
}

func near(t *testing.T, e *estimate, x terms, want, within float64) {
	t.Helper()
	if got := e.cost(&x); math.Abs(got-want) > within*want {
		t.Errorf("chunk %v: predicted %.0f ns, is %.0f", x, got, want)
	}
}

func TestEstimateLearnsEachTerm(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, want := range []truth{
		{terms{600, 330, 0.55, 0}, 0.05}, {terms{1500, 150, 4, 0}, 0.1}, {terms{9000, 25, 0.06, 0.05}, 0.05}, {terms{300, 28, 0.01, 0}, 0},
	} {
		prior := priorCPU[AEAD]
		if want.costs[backlog] > 0 {
			prior = priorGPU[AEAD]
		}
		e, now := newEstimate(prior), time.Duration(0)
		for range 4000 {
			x := chunk(1<<rnd.IntN(9), 64<<rnd.IntN(5), rnd.IntN(1<<20))
			took := want.time(rnd, &x)
			now += 20 * time.Microsecond
			e.observe(&x, took, took, now-time.Duration(took), now)
		}
		for _, x := range []terms{chunk(1, 64, 0), chunk(256, 64, 0), chunk(256, 1408, 1<<19), chunk(64, 700, 0)} {
			near(t, &e, x, truth{costs: want.costs}.time(rnd, &x), 0.15)
		}
	}
}

// Chunks of one size cannot tell the terms apart; other sizes are extrapolated by the priors' proportions.
func TestEstimateOfOneSizeScalesThePriors(t *testing.T) {
	e, now := newEstimate(priorCPU[AEAD]), time.Duration(0)
	x := chunk(64, 512, 0)
	for range 400 {
		now += 50 * time.Microsecond
		took := 2 * newEstimateCost(priorCPU[AEAD], x)
		e.observe(&x, took, took, now, now)
	}
	near(t, &e, x, 2*newEstimateCost(priorCPU[AEAD], x), 0.02)
	y := chunk(32, 512, 0)
	near(t, &e, y, 2*newEstimateCost(priorCPU[AEAD], y), 0.1)
}

func newEstimateCost(prior, x terms) float64 {
	e := newEstimate(prior)
	return e.cost(&x)
}

func TestOutlierHasLittleWeightAndLastingChangeIsLearned(t *testing.T) {
	e, now, x := newEstimate(priorCPU[AEAD]), time.Duration(0), chunk(64, 64, 0)
	took := e.cost(&x)
	observe := func(d float64) {
		now += 20 * time.Microsecond
		e.observe(&x, d, d, now, now)
	}
	for i := range 5000 {
		if i%97 == 0 {
			observe(500 * took)
		} else {
			observe(took)
		}
	}
	near(t, &e, x, took, 0.06)
	if e.risk(now) == 0 {
		t.Error("outliers are no accidents")
	}
	for range 100 {
		observe(10 * took)
	}
	near(t, &e, x, 10*took, 0.25)
	for range 100 {
		observe(took)
	}
	near(t, &e, x, took, 0.1)
}

// All chunks on the GPU are late together: one event, although several outliers.
func TestChunksOfOneStallAreOneOutlier(t *testing.T) {
	e, now, x := newEstimate(priorGPU[Forward]), time.Second, chunk(64, 64, 0)
	took := e.cost(&x)
	for range 100 {
		now += 20 * time.Microsecond
		e.observe(&x, took, took, now-10*time.Microsecond, now)
	}
	for range 7 {
		e.observe(&x, 2.6e6, 2.6e6, now, now+2600*time.Microsecond)
	}
	if got := e.cost(&x); got > 1.5*took {
		t.Errorf("predicted %.0f ns after a stall, %.0f before", got, took)
	}
	if e.risk(now) != 0 {
		t.Error("a single stall is a risk")
	}
}

// A poll sees only that a chunk is finished by now. The prediction stands if it is possible.
func TestLatePollDoesNotChangeTheEstimate(t *testing.T) {
	e, now, x := newEstimate(priorGPU[Forward]), time.Second, chunk(64, 64, 0)
	took := e.cost(&x)
	for range 1000 {
		now += 20 * time.Microsecond
		e.observe(&x, 0, 1.9*took, now-15*time.Microsecond, now)
	}
	near(t, &e, x, took, 0.01)
	for range 1000 {
		now += 20 * time.Microsecond
		e.observe(&x, 0, took/2, now-15*time.Microsecond, now)
	}
	near(t, &e, x, took/2, 0.05)
}

func TestEstimateStaysFiniteWithAnyInput(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	e, now := newEstimate(priorGPU[AEAD]), time.Duration(0)
	for range 100_000 {
		x := chunk(rnd.IntN(2)*rnd.IntN(4096), rnd.IntN(9000), rnd.IntN(1<<uint(rnd.IntN(31))))
		d := math.Exp(rnd.Float64()*30) - 1
		now += time.Duration(rnd.Int64N(1 << uint(rnd.IntN(32))))
		e.observe(&x, d*rnd.Float64(), d, now-time.Duration(rnd.IntN(1e6)), now)
		if v := e.cost(&x); math.IsNaN(v) || v <= 0 || v > 1e12 || math.IsNaN(e.risk(now)) || e.risk(now) < 0 {
			t.Fatalf("predicted %v ns, risk %v", v, e.risk(now))
		}
	}
}
