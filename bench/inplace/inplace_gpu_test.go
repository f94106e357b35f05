//go:build gpu

package inplace

import "testing"

// More bytes take longer.
func TestGPURates(t *testing.T) {
	rates, err := Rates("", []Shape{{256, 64, 32}, {220, 1480, 1480}})
	if err != nil {
		t.Fatal(err)
	}
	if rates[1] <= 0 || rates[0] <= rates[1] {
		t.Errorf("heads %.1f Mpps, packets %.1f", rates[0], rates[1])
	}
	t.Logf("heads %.1f Mpps, packets %.1f", rates[0], rates[1])
}
