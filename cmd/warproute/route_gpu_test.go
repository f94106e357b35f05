//go:build gpu

package main

import "testing"

func TestGPURouteLookupAgreesWithCPU(t *testing.T) {
	for _, table := range []string{"internet", "nested", "adversarial", "dense"} {
		compareEngines(t, "", newSets(t, table, 5000)...)
	}
	real := newSets(t, "real", 0)
	for _, set := range real {
		t.Logf("%v, %d routes: %s", set.Family, set.Len(), set.Source)
	}
	compareEngines(t, "", real...)
}
