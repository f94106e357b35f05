package load

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

// device is a simulated device under test.
type device struct {
	capacity  float64 // packets per second without loss
	generator float64 // packets per second that the generator can offer; 0: any
	noise     float64 // probability of a disturbance in a trial, which loses 0.01 %
	stalls    float64 // probability of a stall of the generator, with losses
	jitter    float64 // relative standard deviation of the capacity
	rnd       *rand.Rand
	trials    int
	took      time.Duration
}

func (d *device) test(rate float64, dur time.Duration) (*Trial, error) {
	d.trials++
	d.took += dur
	t := &Trial{Rate: rate, Seconds: dur.Seconds(), Offered: uint64(rate * dur.Seconds()), Queue: 2048, Queues: 1}
	if d.generator > 0 && rate > d.generator {
		t.EndLag = time.Duration((1 - d.generator/rate) * float64(dur))
		t.Lag, t.Behind, rate = t.EndLag, dur, d.generator
	}
	capacity := d.capacity * (1 + d.jitter*d.rnd.NormFloat64())
	loss := max(0, 1-capacity/rate)
	if d.rnd.Float64() < d.noise {
		loss += 1e-4
	}
	if d.rnd.Float64() < d.stalls {
		loss += 1e-2
		t.Lag = 50 * time.Millisecond
	}
	t.Lost = min(t.Offered, uint64(math.Ceil(loss*float64(t.Offered))))
	t.Delivered = t.Offered - t.Lost
	return t, nil
}

func newDevice(seed uint64) *device {
	return &device{capacity: 12.3e6, rnd: rand.New(rand.NewPCG(seed, 9))}
}

func (d *device) search() *Search {
	return &Search{Test: d.test, Trial: time.Second, Resolution: 0.005, Confirm: 2, Max: 100e6}
}

func TestSearchFindsTheRate(t *testing.T) {
	for _, capacity := range []float64{0.02e6, 1e6, 12.3e6, 77.7e6} {
		for _, guess := range []float64{1e3, 1e6, 12e6, 100e6} {
			d := newDevice(1)
			d.capacity = capacity
			p, err := d.search().Find(0, guess)
			require.NoError(t, err)
			if p.Rate > capacity || p.Rate < 0.994*capacity || p.Limit != ByRouter || len(p.Confirmed) != 2 || p.Failed != 0 {
				t.Errorf("capacity %v, guess %v: %v, limit %s, %d confirmed, %d failed", capacity, guess, p.Rate, p.Limit, len(p.Confirmed), p.Failed)
			}
			if d.took > 8*time.Second {
				t.Errorf("capacity %v, guess %v: %d trials of together %v", capacity, guess, d.trials, d.took)
			}
			if p, err = d.search().Find(partial, guess); err != nil || p.Rate > capacity/(1-partial) || p.Rate < 0.994*capacity/(1-partial) {
				t.Errorf("capacity %v, guess %v: PDR %v, %v", capacity, guess, p, err)
			}
		}
	}
}

// Disturbances of 3 % of the trials, and stalls of the generator in 10 %, do not change the result much.
func TestSearchToleratesNoise(t *testing.T) {
	for seed := range uint64(25) {
		d := newDevice(seed)
		d.noise, d.stalls, d.jitter = 0.03, 0.1, 0.001
		p, err := d.search().Find(0, 14e6)
		require.NoError(t, err)
		if p.Rate > 1.005*d.capacity || p.Rate < 0.95*d.capacity {
			t.Errorf("seed %d: %.3f Mpps of %.3f after %d trials", seed, p.Rate/1e6, d.capacity/1e6, d.trials)
		}
	}
}

func TestSearchNamesTheLimit(t *testing.T) {
	d := newDevice(1)
	d.generator = 5e6
	p, err := d.search().Find(0, 20e6)
	if err != nil || p.Limit != ByGenerator || math.Abs(p.Rate-5e6) > 0.1e6 {
		t.Errorf("generator: %+v, %v", p, err)
	}
	d = newDevice(1)
	s := d.search()
	s.Max = 3e6
	if p, err = s.Find(0, 2e6); err != nil || p.Limit != ByMax || p.Rate != 3e6 {
		t.Errorf("highest rate: %+v, %v", p, err)
	}
	d = newDevice(1)
	d.capacity = 1 // nothing passes
	if p, err = d.search().Find(0, 20e6); err != nil || p.Rate != 0 || len(p.Confirmed) != 0 {
		t.Errorf("nothing: %+v, %v", p, err)
	}
}

// A result that short trials find too high is corrected by trials of full duration.
func TestSearchConfirmsByFullTrials(t *testing.T) {
	d := newDevice(1)
	s := d.search()
	s.Test = func(rate float64, dur time.Duration) (*Trial, error) {
		d.capacity = 12e6
		if dur == s.Trial {
			d.capacity = 11e6
		}
		return d.test(rate, dur)
	}
	p, err := s.Find(0, 10e6)
	if err != nil || p.Rate > 11e6 || p.Rate < 0.99*11e6 {
		t.Errorf("%+v, %v; want 11 Mpps", p, err)
	}
}

func TestSearchEnds(t *testing.T) {
	s := newDevice(1).search()
	s.Test = func(rate float64, d time.Duration) (*Trial, error) { // always stalled
		return &Trial{Rate: rate, Seconds: 1, Offered: 100, Lost: 1, Lag: time.Second, Queue: 1, Queues: 1}, nil
	}
	if p, err := s.Find(0, 50e6); err == nil && p.Rate != 0 || err != nil && !errors.Is(err, ErrNoConvergence) {
		t.Errorf("%+v, %v", p, err)
	}
	broken := errors.New("broken")
	s.Test = func(float64, time.Duration) (*Trial, error) { return nil, broken }
	if _, err := s.Find(0, 50e6); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestRunMeasuresSharesOfNDR(t *testing.T) {
	d := newDevice(1)
	arrival, _ := ParseArrival("poisson")
	o := Options{Arrival: arrival, Shares: DefaultShares, Trial: time.Second, Resolution: 0.01, Confirm: 3}
	require.NoError(t, o.Check())
	r, err := Run(o, d.test, func(string, ...any) {})
	require.NoError(t, err)
	if r.NDR.Mpps > 12.3 || r.NDR.Mpps < 12.1 || r.PDR.Mpps < r.NDR.Mpps || len(r.NDR.Trials) != 3 || r.Arrival != "poisson" || r.Ring != 2048 || r.Max < 12.2 {
		t.Errorf("%+v", r)
	}
	for i, s := range r.Loads {
		if want := r.NDR.Mpps * DefaultShares[i]; math.Abs(s.Mpps-want) > 1e-6 || s.Of != "ndr" || s.Offered != s.Delivered || s.Lost != 0 {
			t.Errorf("load %d: %+v", i, s)
		}
	}
	o = Options{Rates: []float64{1e6, 24.6e6}, Trial: time.Second, Resolution: 0.01, Confirm: 1}
	if r, err = Run(o, d.test, func(string, ...any) {}); err != nil || r.NDR != nil || r.PDR != nil || len(r.Loads) != 2 || math.Abs(r.Loads[1].LossRatio-0.5) > 0.001 {
		t.Errorf("given rates: %+v, %v", r, err)
	}
}

// On a host where every trial loses a packet, the loads refer to PDR.
func TestRunFallsBackToPDR(t *testing.T) {
	d := newDevice(1)
	d.noise = 1
	r, err := Run(Options{Shares: []float64{0.5}, Trial: time.Second, Resolution: 0.01, Confirm: 1}, d.test, func(string, ...any) {})
	if err != nil || r.NDR.Mpps != 0 || r.Loads[0].Of != "pdr" || math.Abs(r.Loads[0].Mpps-6.15) > 0.1 {
		t.Errorf("%+v, %v", r, err)
	}
	d.capacity = 1
	if _, err = Run(Options{Shares: []float64{0.5}, Trial: time.Second, Resolution: 0.01, Confirm: 1}, d.test, func(string, ...any) {}); err == nil {
		t.Error("no rate passes, and no error")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Shares: []float64{1}, Trial: time.Second, Resolution: 0.01, Confirm: 1}
	for name, change := range map[string]func(o *Options){
		"trial":      func(o *Options) { o.Trial = 0 },
		"resolution": func(o *Options) { o.Resolution = math.NaN() },
		"confirm":    func(o *Options) { o.Confirm = 0 },
		"max":        func(o *Options) { o.Max = math.Inf(1) },
		"rate":       func(o *Options) { o.Rates = []float64{0} },
		"share":      func(o *Options) { o.Shares = []float64{-1} },
		"loads":      func(o *Options) { o.Shares = nil },
	} {
		o := good
		if change(&o); good.Check() != nil || o.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// When its time is over, a search confirms the best rate so far and reports the width of the interval. If the
// trials there fail, the rate has no confirming ones.
func TestSearchEndsInTime(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		d := newDevice(1)
		s := d.search()
		s.Time, s.Resolution, s.now = 2*time.Second, 1e-4, func() time.Time { return time.Time{}.Add(d.took) }
		if !confirmed {
			s.Test = func(rate float64, dur time.Duration) (*Trial, error) {
				d.capacity = 12.3e6
				if dur == s.Trial {
					d.capacity = 1e6
				}
				return d.test(rate, dur)
			}
		}
		p, err := s.Find(0, 11e6)
		require.NoError(t, err)
		if want := 12.3e6; !p.Ended || p.Rate > want || p.Rate < want*(1-p.Width) || p.Width < 1e-4 || p.Width > 0.1 || p.Limit != ByRouter {
			t.Errorf("%+v", p)
		}
		if d.took > 5*time.Second || len(p.Confirmed) > 0 != confirmed || p.Failed > 0 == confirmed {
			t.Errorf("%d trials confirm, %d do not, %v", len(p.Confirmed), p.Failed, d.took)
		}
	}
	d := newDevice(1)
	s := d.search()
	s.Time, s.now = time.Nanosecond, func() time.Time { return time.Time{}.Add(d.took) }
	if p, err := s.Find(0, 5e6); err != nil || p.Rate != 5e6 || p.Width != 1 || len(p.Confirmed) != 2 {
		t.Errorf("one rate: %+v, %v", p, err)
	}
	d.capacity = 1 // nothing passes
	s = d.search()
	s.Time, s.now = time.Second, func() time.Time { return time.Time{}.Add(d.took) }
	if p, err := s.Find(0, 20e6); err != nil || p.Rate != 0 || !p.Ended {
		t.Errorf("nothing: %+v, %v", p, err)
	}
}
