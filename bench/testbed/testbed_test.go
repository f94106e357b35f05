package testbed

import (
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

func TestNICsAndWorkersShareNoCore(t *testing.T) {
	cpus, err := affinity.CPUs()
	require.NoError(t, err)
	n := len(cpus)
	for workers := 1; workers <= n; workers++ {
		w, c, err := cores(Config{Workers: workers, NICs: n - workers})
		require.NoError(t, err)
		all := slices.Sorted(slices.Values(slices.Concat(w, c)))
		if len(w) != workers || !slices.Equal(all, cpus) {
			t.Errorf("cores %v: workers %v, NICs %v", cpus, w, c)
		}
		if alone, _, _ := cores(Config{Workers: workers}); !slices.Equal(alone, w) {
			t.Errorf("workers without NICs: cores %v, with NICs %v", alone, w)
		}
	}
	if w, _, err := cores(Config{Workers: 2 * n}); err != nil || len(w) != 2*n {
		t.Errorf("%d workers without NICs: %v, %v", 2*n, w, err)
	}
	if err := (Config{Workers: n, NICs: 1}).Check(); err == nil || !strings.Contains(err.Error(), "fewer workers") {
		t.Errorf("%d workers and a NIC on %d cores: %v", n, n, err)
	}
}

func TestOnGPUsOpensEveryGPU(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "") // two GPUs without the kernels
	c := Config{Workers: 1, Driver: lib, Chunks: 1}
	for c.GPUs = range 4 {
		if err := c.Check(); (err != nil) != (c.GPUs > 2) || err != nil && !strings.Contains(err.Error(), "3 requested, the CUDA driver has 2") {
			t.Errorf("%d GPUs of 2: %v", c.GPUs, err)
		}
		_, _, err := c.OnGPUs(fib.New(1), gpu.Options{}, nil)()
		want := []string{"0 GPUs: at least 1", "use GPU 0: ", "; use GPU 1: ", "has 2"}[c.GPUs]
		if err == nil || !strings.Contains(err.Error(), want) || c.GPUs == 1 && strings.Contains(err.Error(), "GPU 1") {
			t.Errorf("%d unusable GPUs: %v", c.GPUs, err)
		}
	}
}

func TestKeepContexts(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "")
	for gpus, ok := range []bool{true, true, true, false} {
		release, err := Config{Driver: lib, GPUs: gpus}.KeepContexts()
		if (err == nil) != ok || ok && release() != nil {
			t.Errorf("%d GPUs of 2: %v", gpus, err)
		}
	}
}

// A GPU with an outage reports it elsewhere.
func TestTimeoutsInvalidateAMeasurement(t *testing.T) {
	good, late, out := gpu.State{}, gpu.State{Number: 1, Timeouts: 2, Recoveries: 2, ByCPU: 7}, gpu.State{Number: 2, Timeouts: 1, Outage: &gpu.Outage{}}
	if err := timeouts([]gpu.State{good, out}); err != nil {
		t.Errorf("no timeout: %v", err)
	}
	if err := timeouts([]gpu.State{good, late, out}); err == nil || err.Error() != "GPU 1 timed out 2 times, and the CPU processed 7 chunks instead: measure again" {
		t.Errorf("one timeout: %v", err)
	}
}
