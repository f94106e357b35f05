//go:build gpu

package gpulookup

import (
	"context"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
)

func TestGPURunVerifiesEveryMethod(t *testing.T) {
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		for _, table := range []string{"internet", "nested"} {
			r, err := Run(context.Background(), options(t, table, f))
			require.NoError(t, err)
			for _, rate := range r.Rates {
				t.Logf("%v %s: %s, %s: %.3f G/s", f, table, rate.Method, rate.Destinations, rate.Median())
			}
		}
	}
}
