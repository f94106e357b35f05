package forward

import (
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

// Packets are verified, and none disappears, with copied and with prepared frames.
func TestLoadVerifiesAndCounts(t *testing.T) {
	cpus, err := affinity.CPUs()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("a worker and a NIC need two cores")
	}
	for _, prepared := range []int{0, 4096} {
		for _, ipv6 := range []bool{false, true} {
			s, err := Load(Options{
				IPv6: ipv6, Engine: "cpu", Table: "random", Routes: 500, Sizes: []int{78, 590, 1422}, Seed: 7,
				Testbed: testbed.Config{Workers: 1, NICs: 1, MaxPackets: 256, Chunks: 1, Prepared: prepared},
			})
			require.NoError(t, err)
			trial, err := s.Tester(load.Arrival{Kind: load.Poisson}, 1)(20_000, 50*time.Millisecond)
			require.NoError(t, err)
			if s.Verified != 16384 || trial.Offered < 800 || trial.Offered > 1200 || trial.Offered != trial.Delivered+trial.Lost || trial.Latency.Count != trial.Delivered {
				t.Errorf("%d verified, %d offered, %d delivered, %d lost", s.Verified, trial.Offered, trial.Delivered, trial.Lost)
			}
		}
	}
}

// The GPU engine takes the same way; without kernels it fails when the verification opens it.
func TestLoadOpensGPUs(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "")
	c := testbed.Config{Workers: 1, NICs: 1, MaxPackets: 64, Chunks: 1, Driver: lib}
	if e := c.Auto(); e != "gpu" || c.GPUs != 1 || !c.Choose {
		t.Errorf("engine %s, %+v", e, c)
	}
	cpus, err := affinity.CPUs()
	require.NoError(t, err)
	if len(cpus) < 2 {
		t.Skip("a worker and a NIC need two cores")
	}
	_, err = Load(Options{Engine: "gpu", Table: "random", Routes: 50, Sizes: []int{60}, Testbed: c})
	if err == nil || !strings.Contains(err.Error(), "GPU 0") {
		t.Errorf("a GPU without kernels: %v", err)
	}
}
