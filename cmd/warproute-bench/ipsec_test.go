package main

import "testing"

func TestCPUComparisonUsesNoGPUsAndFewNICs(t *testing.T) {
	s := ipsecSweep{}
	s.Engine, s.Testbed.Workers, s.Testbed.NICs, s.Testbed.GPUs = "gpu", 8, 8, 2
	all := s.withCPU()
	if len(all) < 2 || all[0].Testbed.NICs != 8 || all[0].Testbed.GPUs != 2 {
		t.Fatalf("options: %+v", all)
	}
	for _, o := range all[1:] {
		if o.Engine != "cpu" || o.Testbed.GPUs != 0 || o.Testbed.NICs != min(8, 2*o.Testbed.Workers) {
			t.Errorf("engine %s with %d workers: %d NICs, %d GPUs", o.Engine, o.Testbed.Workers, o.Testbed.NICs, o.Testbed.GPUs)
		}
	}
}
