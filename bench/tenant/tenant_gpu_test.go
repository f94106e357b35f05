//go:build gpu

package tenant

import (
	"math"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func TestGPUKernelsTakeTheCalibratedTime(t *testing.T) {
	r, err := Run(t.Context(), Options{Duration: time.Second, Kernel: 200 * time.Microsecond})
	require.NoError(t, err)
	if math.Abs(r.Alone-200) > 20 || r.Rate > 5000*1.1 || r.P50 < 0.95*r.Alone { // the device time includes that of two events
		t.Errorf("%+v", r)
	}
	t.Logf("%+v", r)
	again, err := Run(t.Context(), Options{Duration: 100 * time.Millisecond, Iterations: r.Iterations})
	require.NoError(t, err)
	if again.Iterations != r.Iterations || math.Abs(again.Alone-r.Alone) > 20 {
		t.Errorf("the same iterations take %.1f µs, then %.1f µs", r.Alone, again.Alone)
	}
}
