//go:build gpu

package ladder

import (
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func TestGPURungsAgreeWithTheCPUEngine(t *testing.T) {
	o := Options{
		Table: "random", Routes: 10_000, Seed: 1, Sizes: []int{1, 60, 241, 1024, 4096}, InFlight: 8, Rungs: Names(),
		Duration: 20 * time.Millisecond, Rounds: 2, Load: 0.7,
	}
	r, err := Run(o, t.Logf)
	require.NoError(t, err)
	want := 0
	for _, n := range o.Sizes {
		want += len(o.Rungs) * (leastFrames / n * n)
	}
	if r.Verified != want {
		t.Errorf("%d verified packets, want %d", r.Verified, want)
	}
	for _, p := range r.Points {
		t.Logf("%+v", p)
		if p.Mpps <= 0 || p.P50 <= 0 || p.LoadP50 <= 0 || p.Mixed <= 0 || p.ExpressP50 <= 0 {
			t.Errorf("%s, %d packets: a value is missing", p.Rung, p.Packets)
		}
	}
}
