package main

import "testing"

// What a GPU's engine is compared with says no more cards than there are queues for.
func TestCardsBesideAGPU(t *testing.T) {
	s := ipsecSweep{}
	s.Engine, s.Bed.Workers, s.Bed.Cards = "gpu", 8, 8
	all := s.beside()
	if len(all) < 2 || all[0].Bed.Cards != 8 {
		t.Fatalf("measured: %+v", all)
	}
	for _, o := range all[1:] {
		if o.Engine != "cpu" || o.Bed.Cards != min(8, 2*o.Bed.Workers) {
			t.Errorf("engine %s with %d workers: %d cards", o.Engine, o.Bed.Workers, o.Bed.Cards)
		}
	}
}
