package gateway

import (
	"testing"

	"github.com/warproute/warproute/ipsec"
)

// When the current SA is removed, the newest remaining one is used.
func TestNewestRemainingSAIsUsed(t *testing.T) {
	for range 20 { // a choice by chance would be found out
		g := &Gateway{}
		var sas []*ipsec.SA
		for i := range 4 {
			sas = append(sas, newSA(t, g, ipsec.Out, "b", uint32(0x100+i)))
		}
		g.Remove(sas[1])
		for _, want := range []int{3, 2, 0} {
			if s := g.tunnels.current.of(0).Load(); s != sas[want] {
				t.Fatalf("SPI %#x is used, want %#x", s.Config().SPI, sas[want].Config().SPI)
			}
			g.Remove(sas[want])
		}
		if g.tunnels.current.of(0).Load() != nil {
			t.Fatal("a removed association is used")
		}
		for s := range g.All {
			t.Fatalf("SPI %#x is still there", s.Config().SPI)
		}
	}
}
