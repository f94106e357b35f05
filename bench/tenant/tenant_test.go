package tenant

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("Launch shape and constants of the generator: tenant.go.")
	h.Define("THREADS", threads, "per block")
	h.Define("MULTIPLIER", multiplier)
	h.Define("INCREMENT", increment)
	h.Check(t, "layout.h")
}

// fakeGPU builds a fake driver whose kernels take 50 ns per iteration and run the kernel's code.
func fakeGPU(t *testing.T, fault string) string {
	t.Helper()
	return testutil.FakeGPU(t, "testdata/fakegpu.c", fault)
}

func TestCalibratedKernelsTakeTheTime(t *testing.T) {
	for _, d := range []time.Duration{200 * time.Microsecond, time.Millisecond} {
		r, err := Run(t.Context(), Options{Driver: fakeGPU(t, ""), Duration: 100 * time.Millisecond, Kernel: d})
		require.NoError(t, err)
		us := float64(d) / 1e3
		if math.Abs(r.Alone-us) > us/50 || math.Abs(float64(r.Iterations)-us*20) > us {
			t.Errorf("kernels of %v: %d iterations, %.1f µs on the device", d, r.Iterations, r.Alone)
		}
		if r.Kernels == 0 || r.Rate > 1e6/us || r.Seconds < 0.1 || math.Abs(r.Rate-float64(r.Kernels)/r.Seconds) > 1e-6 {
			t.Errorf("kernels of %v: %d in %v s, %v per second", d, r.Kernels, r.Seconds, r.Rate)
		}
		if r.P50 < us || r.P99 < r.P50 || r.Max < r.P99 {
			t.Errorf("kernels of %v: p50 %v, p99 %v, max %v µs", d, r.P50, r.P99, r.Max)
		}
		if r.GPU != "Fake 0" || r.Blocks != 2*132 || r.Threads != threads {
			t.Errorf("%s: %d blocks of %d threads", r.GPU, r.Blocks, r.Threads)
		}
	}
}

// Time slices of another process neither change the amount of work nor remain hidden.
func TestTimeSlicesShowInTheRateAlone(t *testing.T) {
	o := Options{Duration: 100 * time.Millisecond, Iterations: 4000, Blocks: 3, GPU: 1}
	o.Driver = fakeGPU(t, "")
	alone, err := Run(t.Context(), o)
	require.NoError(t, err)
	o.Driver = fakeGPU(t, "slices")
	sliced, err := Run(t.Context(), o)
	require.NoError(t, err)
	if sliced.Iterations != 4000 || sliced.Blocks != 3 || sliced.GPU != "Fake 1" || math.Abs(sliced.Alone-alone.Alone) > 1 {
		t.Errorf("alone %+v, sliced %+v", alone, sliced)
	}
	if sliced.P50 < 2400 || sliced.Rate > 1e6/2400 || sliced.Rate > alone.Rate/2 {
		t.Errorf("alone %.0f kernels/s, sliced %.0f, p50 %.0f µs", alone.Rate, sliced.Rate, sliced.P50)
	}
}

func TestInterruptionReportsTheKernelsSoFar(t *testing.T) {
	o := Options{Driver: fakeGPU(t, ""), Duration: time.Hour, Iterations: 1000}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := Run(ctx, o)
	require.NoError(t, err)
	if r.Kernels == 0 || r.Seconds > 10 {
		t.Errorf("%d kernels in %v s", r.Kernels, r.Seconds)
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted before the first kernel: %v", err)
	}
}

func TestRunVerifiesTheWork(t *testing.T) {
	_, err := Run(t.Context(), Options{Driver: fakeGPU(t, "wrong"), Duration: time.Second, Iterations: 1000})
	if err == nil || !strings.Contains(err.Error(), "verify before measuring: block 0 computed") {
		t.Errorf("a kernel that computes something else: %v", err)
	}
}

func TestRunRejectsInvalidOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"write a positive one":  {Kernel: time.Millisecond},
		"1µs to 100ms":          {Duration: 1, Kernel: time.Second},
		"numbered from 0":       {Duration: 1, Iterations: 1, GPU: -1},
		"1 to 2147483647":       {Duration: 1, Iterations: 1, Blocks: -1},
		"the CUDA driver has 2": {Duration: 1, Iterations: 1, GPU: 2, Driver: fakeGPU(t, "")},
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", o, err, want)
		}
	}
	o := Options{Duration: 1, Iterations: 1, Driver: filepath.Join(t.TempDir(), "libcuda.so.1")}
	if _, err := Run(t.Context(), o); !errors.Is(err, cuda.ErrNoDriver) {
		t.Errorf("without a driver: %v", err)
	}
}
