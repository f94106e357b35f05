package ipsec

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	esp "github.com/warproute/warproute/ipsec"
)

func needTwoCores(t *testing.T) {
	t.Helper()
	cpus, err := affinity.CPUs()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("a worker and a NIC need two cores")
	}
}

// offers reports whether a trial offered its rate, within 5 %, and lost or delivered each packet. A trial with prepared packets
// ends early on a slow host, after several rounds.
func offers(t *load.Trial, rate float64) bool {
	return math.Abs(float64(t.Offered)-rate*t.Seconds) < rate*t.Seconds/20 && t.Offered == t.Delivered+t.Lost
}

// Every round has new SAs, so no packet is refused as a replay, also where a trial has several rounds.
func TestLoadOfGateways(t *testing.T) {
	needTwoCores(t)
	for _, d := range []esp.Direction{esp.Out, esp.In} {
		for _, prepared := range []int{0, 2000} {
			o := options("aes128gcm16", d)
			o.Testbed.NICs, o.Testbed.Prepared, o.Ring, o.IPv6 = 1, prepared, 1, prepared > 0
			s, window, err := Load(o)
			require.NoError(t, err)
			if want := map[esp.Direction]int{esp.Out: 0, esp.In: 64}[d]; window != want || s.Verified != variety {
				t.Errorf("%s: window %d, %d verified", names[d], window, s.Verified)
			}
			trial, err := s.Tester(load.Arrival{}, 1)(50_000, 200*time.Millisecond)
			if err != nil {
				t.Fatalf("%s, %d prepared: %v", names[d], prepared, err)
			}
			if !offers(trial, 50_000) || trial.Delivered == 0 || trial.Offered <= uint64(prepared) {
				t.Errorf("%s, %d prepared, %.3f s: %d offered, %d delivered, %d lost", names[d], prepared, trial.Seconds,
					trial.Offered, trial.Delivered, trial.Lost)
			}
		}
	}
}

// The GPU engine, with a null device, loses no packet either, with one lane and with several.
func TestLoadOfGPUEngine(t *testing.T) {
	needTwoCores(t)
	for _, prepared := range []int{0, 1000} {
		tr := newHostTraffic(t, esp.Out, false)
		tr.Testbed.NICs, tr.Testbed.Prepared = 1, prepared
		if prepared > 0 {
			tr.Testbed.Lanes = testbed.DefaultLanes
		}
		rings, err := tr.rings(tr.protect)
		require.NoError(t, err)
		s := &testbed.Subject{Summary: testbed.Summary{Engine: host}, Open: func() (*testbed.Testbed, int, error) {
			b, err := tr.newTestbed(1, 0)
			if err == nil {
				b.In[0].PlayRecording(rings[0].tape, 0, -1)
			}
			return b, prepared, err
		}}
		trial, err := s.Tester(load.Arrival{Kind: load.Burst, Burst: 16}, 1)(20_000, 200*time.Millisecond)
		require.NoError(t, err)
		if !offers(trial, 20_000) || trial.Delivered == 0 || trial.Offered <= uint64(prepared) || trial.Engine != host {
			t.Errorf("%.3f s: %d offered, %d delivered, %d lost, engine %s", trial.Seconds, trial.Offered, trial.Delivered, trial.Lost, trial.Engine)
		}
		s.Engine = "gpu"
		if _, err := s.Tester(load.Arrival{}, 1)(20_000, time.Millisecond); err == nil || !strings.Contains(err.Error(), "engine host at the end, not gpu") {
			t.Errorf("another engine at the end: %v", err)
		}
	}
}
