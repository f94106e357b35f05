//go:build gpu

package pcie

import (
	"testing"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/require"
)

func TestGPURates(t *testing.T) {
	driver, err := cuda.Open("")
	require.NoError(t, err)
	found, err := driver.Devices()
	require.NoError(t, err)
	for gpus := 1; gpus <= max(1, len(found)); gpus++ {
		rates, err := Rates("", gpus, []Shape{{256, 64, 32}, {220, 1480, 1480}})
		require.NoError(t, err)
		if rates[1] <= 0 || rates[0] <= rates[1] {
			t.Errorf("%d GPUs: headers %.1f Mpps, packets %.1f", gpus, rates[0], rates[1])
		}
		t.Logf("%d GPUs: headers %.1f Mpps, packets %.1f", gpus, rates[0], rates[1])
	}
}
