package main

import "testing"

// What a GPU's engine is compared with says no more cards than there are queues for, and no GPUs.
func TestCardsBesideAGPU(t *testing.T) {
	s := ipsecSweep{}
	s.Engine, s.Bed.Workers, s.Bed.Cards, s.Bed.GPUs = "gpu", 8, 8, 2
	all := s.beside()
	if len(all) < 2 || all[0].Bed.Cards != 8 || all[0].Bed.GPUs != 2 {
		t.Fatalf("measured: %+v", all)
	}
	for _, o := range all[1:] {
		if o.Engine != "cpu" || o.Bed.GPUs != 0 || o.Bed.Cards != min(8, 2*o.Bed.Workers) {
			t.Errorf("engine %s with %d workers: %d cards, %d GPUs", o.Engine, o.Bed.Workers, o.Bed.Cards, o.Bed.GPUs)
		}
	}
}
