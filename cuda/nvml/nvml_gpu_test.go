//go:build gpu

package nvml

import (
	"testing"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/internal/require"
)

func TestGPUEnergyGrowsWithPower(t *testing.T) {
	l := open(t, "")
	driver, err := cuda.Open("")
	require.NoError(t, err)
	devices, err := driver.Devices()
	require.NoError(t, err)
	for _, device := range devices {
		info, err := device.Info()
		require.NoError(t, err)
		d, err := l.Device(info.PCIBusID)
		require.NoError(t, err)
		power, err := d.Power()
		require.NoError(t, err)
		percent, err := d.Utilization()
		require.NoError(t, err)
		before, err := d.Energy()
		require.NoError(t, err)
		start := time.Now()
		time.Sleep(time.Second)
		after, err := d.Energy()
		require.NoError(t, err)
		watts := float64(after-before) / 1e3 / time.Since(start).Seconds()
		if power < 5_000 || power > 2_000_000 || watts < 5 || watts > 2_000 || percent > 100 {
			t.Errorf("%s: %d mW, %.1f W by the energy counter, %d %%", info.PCIBusID, power, watts, percent)
		}
		t.Logf("%s: %d mW, %.1f W by the energy counter, %d %%", info.PCIBusID, power, watts, percent)
	}
}
