//go:build gpu

package pcie

import (
	"testing"

	"github.com/warproute/warproute/cuda"
)

func TestGPURates(t *testing.T) {
	driver, err := cuda.Open("")
	if err != nil {
		t.Fatal(err)
	}
	found, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	for gpus := 1; gpus <= max(1, len(found)); gpus++ {
		rates, err := Rates("", gpus, []Shape{{256, 64, 32}, {220, 1480, 1480}})
		if err != nil {
			t.Fatal(err)
		}
		if rates[1] <= 0 || rates[0] <= rates[1] {
			t.Errorf("%d GPUs: headers %.1f Mpps, packets %.1f", gpus, rates[0], rates[1])
		}
		t.Logf("%d GPUs: headers %.1f Mpps, packets %.1f", gpus, rates[0], rates[1])
	}
}
