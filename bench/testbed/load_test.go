package testbed

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
)

// needCores skips a test on a host with fewer cores.
func needCores(t *testing.T, n int) {
	t.Helper()
	cpus, err := affinity.CPUs()
	require.NoError(t, err)
	if len(cpus) < n {
		t.Skipf("%d cores, the test needs %d", len(cpus), n)
	}
}

// newSubject returns a subject with the CPU engine, or another, and frames of 60 bytes.
func newSubject(t *testing.T, prepared int, wrap func(dataplane.Engine, []byte) dataplane.Engine) *Subject {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	routes := randomRoutes(rnd, false, 100)
	base, err := NewFIB(routes, 1500)
	require.NoError(t, err)
	frames := make([][]byte, 1000)
	for i := range frames {
		frames[i] = make([]byte, 60)
		dst := Destination(rnd, routes)
		PutEthernet(frames[i], false)
		PutIP(frames[i][14:], dst, dst, 17, 64, 0)
	}
	c := Config{Workers: 1, NICs: 1, MaxPackets: 64, Chunks: 1, Prepared: prepared}
	return &Subject{Summary: Summary{Engine: "cpu"}, Open: func() (*Testbed, int, error) {
		b, err := New(c, base, func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
			return func(_ int, mem []byte) (dataplane.Engine, error) {
				return wrap(cpu.New(base, mem, make([]bool, Ports)), mem), nil
			}, func() error { return nil }, nil
		})
		if err != nil {
			return nil, 0, err
		}
		b.In[0].Play(frames, -1)
		return b, prepared, nil
	}}
}

func same(e dataplane.Engine, _ []byte) dataplane.Engine { return e }

func TestTrialCountsEveryPacket(t *testing.T) {
	needCores(t, 2)
	for _, prepared := range []int{0, 3000} {
		for _, text := range []string{"constant", "poisson", "burst:32"} {
			a, err := load.ParseArrival(text)
			require.NoError(t, err)
			const rate, d = 50_000, 100 * time.Millisecond
			trial, err := newSubject(t, prepared, same).Tester(a, 1)(rate, d) // with prepared frames, of several rounds
			if err != nil {
				t.Fatalf("%s, %d prepared: %v", text, prepared, err)
			}
			if want := rate * d.Seconds(); float64(trial.Offered) < 0.9*want || float64(trial.Offered) > 1.1*want || trial.Offered != trial.Delivered+trial.Lost {
				t.Errorf("%s: %d offered, %d delivered, %d lost; want %v offered", text, trial.Offered, trial.Delivered, trial.Lost, want)
			}
			if trial.Latency.Count != trial.Delivered || trial.Delivered == 0 || trial.Seconds < 0.999*d.Seconds() || trial.Engine != "cpu" {
				t.Errorf("%s: latency of %d packets in %v s with engine %s", text, trial.Latency.Count, trial.Seconds, trial.Engine)
			}
			l := load.NewLatency(&trial.Latency, trial.Longest)
			if l.P50 <= 0 || l.P50 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
				t.Errorf("%s: %+v", text, l)
			}
			if s := trial.Stages["total"]; s == nil || len(trial.Stages) != dataplane.NumStages || trial.CPU < 0 {
				t.Errorf("%s: %d stages, CPU %v ns for %d packets", text, len(trial.Stages), trial.CPU, trial.Sent)
			}
		}
	}
}

// stalling is an engine that stops once, after a number of chunks.
type stalling struct {
	dataplane.Engine
	chunks int
	stall  time.Duration
}

func (s *stalling) Submit(c *batch.Chunk) {
	if s.chunks--; s.chunks == 0 {
		for end := batch.Clock() + s.stall; batch.Clock() < end; {
		}
	}
	s.Engine.Submit(c)
}

// A stall of the router overflows the ring at a high rate, and is latency at a low one.
func TestStallOfRouterIsLossOrLatency(t *testing.T) {
	needCores(t, 2)
	const stall = 30 * time.Millisecond
	chunks := 200
	stop := func(e dataplane.Engine, _ []byte) dataplane.Engine { return &stalling{e, chunks, stall} }
	var trial *load.Trial
	for range 3 { // a busy host can pause the NIC at the same time
		var err error
		trial, err = newSubject(t, 0, stop).Tester(load.Arrival{}, 1)(1e6, 100*time.Millisecond)
		require.NoError(t, err)
		if trial.Lost > 10_000 {
			break
		}
	}
	if trial.Lost < 10_000 || trial.Delivered == 0 {
		t.Errorf("%d packets lost in 30 ms at 1 Mpps, with a ring of 2,048", trial.Lost)
	}
	chunks = 50
	trial, err := newSubject(t, 0, stop).Tester(load.Arrival{}, 1)(2000, 200*time.Millisecond)
	require.NoError(t, err)
	if trial.Lost > 0 || trial.Longest < stall {
		t.Errorf("%d packets lost at 2,000 per second, latency up to %v", trial.Lost, trial.Longest)
	}
}

// losing is an engine that forgets the last packet of a chunk.
type losing struct{ dataplane.Engine }

func (l losing) Submit(c *batch.Chunk) {
	l.Engine.Submit(c)
	c.Out[c.N-1] = batch.DropFor(batch.NoRoute)
}

func TestDropsOfTheRouterAreErrors(t *testing.T) {
	needCores(t, 2)
	_, err := newSubject(t, 0, func(e dataplane.Engine, _ []byte) dataplane.Engine { return losing{e} }).Tester(load.Arrival{}, 1)(10_000, 20*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "drop reasons: [no_route]") {
		t.Errorf("dropped packets: %v", err)
	}
}

// TestWarmupsAndMeasurementFillARound: a round that is bounded by its packets lasts as long as they do.
func TestWarmupsAndMeasurementFillARound(t *testing.T) {
	for round := 10 * time.Microsecond; round < 5*time.Second; round += round / 7 {
		d := measured(round)
		if all := d + Warmup(d); all > round || all < round-10 {
			t.Errorf("round of %v: %v and a warm-up of %v", round, d, Warmup(d))
		}
	}
	for d, want := range map[time.Duration]time.Duration{
		5 * time.Millisecond: 5 * time.Millisecond, 50 * time.Millisecond: 30 * time.Millisecond, 500 * time.Millisecond: 50 * time.Millisecond, 2 * time.Second: 100 * time.Millisecond,
	} {
		if got := Warmup(d); got != want {
			t.Errorf("%v are measured after %v, want %v", d, got, want)
		}
	}
}

func TestTooFewPreparedPackets(t *testing.T) {
	needCores(t, 2)
	for _, a := range []load.Arrival{{Kind: load.Poisson}, {Kind: load.Burst, Burst: 64}} {
		if _, err := newSubject(t, 30, same).Tester(a, 1)(1e6, time.Millisecond); err == nil {
			t.Errorf("%v: 30 prepared packets are enough", a)
		}
	}
}

func TestAutoFallsBackToCPU(t *testing.T) {
	c := Config{Workers: 1, Chunks: 1, Driver: "/nonexistent/libcuda.so"}
	if e := c.Auto(); e != "cpu" || c.GPUs != 0 || c.Choose {
		t.Errorf("engine %s, %+v", e, c)
	}
}

// The keys of results stay flat.
func TestLoadResultIsOneObject(t *testing.T) {
	text, err := json.Marshal(LoadResult{Summary: Summary{Engine: "cpu"}, Result: load.Result{Loads: []load.Step{{}}}})
	require.NoError(t, err)
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &keys))
	for _, key := range []string{"engine", "verified_packets", "packet_bytes", "arrival", "loads"} {
		if keys[key] == nil {
			t.Errorf("no %q in %s", key, text)
		}
	}
}
