//go:build gpu

package device

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/routes"
)

func TestGPURouteLookupAgrees(t *testing.T) {
	for _, f := range []routes.Family{routes.IPv4, routes.IPv6} {
		for _, table := range kinds {
			agree(t, "", newSet(t, table, f, 5000))
		}
		set, err := routes.Real(f, 1)
		require.NoError(t, err)
		t.Logf("%s: %v, %d routes", set.Source, f, set.Len())
		agree(t, "", set)
	}
}
