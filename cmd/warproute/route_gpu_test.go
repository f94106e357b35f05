//go:build gpu

package main

import "testing"

// A GPU answers as the CPU does, byte for byte: small tables of all kinds, and the real one.
func TestGPURouteLookup(t *testing.T) {
	for _, table := range []string{"internet", "nested", "adversarial", "dense"} {
		gpuAnswersAlike(t, "", newSets(t, table, 5000)...)
	}
	real := newSets(t, "real", 0)
	for _, set := range real {
		t.Logf("%v, %d routes: %s", set.Family, set.Len(), set.Source)
	}
	gpuAnswersAlike(t, "", real...)
}
