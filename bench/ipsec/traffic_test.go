package ipsec

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// TestEveryTunnelHasTheMix: its packets have the sizes of the mix in its proportions, up to one round, whatever the number of tunnels.
func TestEveryTunnelHasTheMix(t *testing.T) {
	of := map[int]int{} // places in the mix by size
	for _, size := range IMIX {
		of[size]++
	}
	for _, sas := range []int{1, 2, 3, 5, 6, 11, 12, 13, 23, 125} {
		o := options("aes128gcm16", esp.Out)
		o.SAs, o.Sizes = sas, IMIX
		tr, err := newTraffic(&o)
		require.NoError(t, err)
		counts := map[*tunnel]map[int]int{}
		for _, p := range tr.inner {
			if counts[p.tunnel] == nil {
				counts[p.tunnel] = map[int]int{}
			}
			counts[p.tunnel][len(p.frame)-packet.EthernetLen]++
		}
		if len(counts) != sas {
			t.Fatalf("%d tunnels have packets, want %d", len(counts), sas)
		}
		for _, sizes := range counts {
			for size, places := range of {
				rounds := len(tr.inner) / sas / len(IMIX)
				if n := sizes[size]; n < rounds*places || n > (rounds+1)*places+1 {
					t.Fatalf("%d SAs: a tunnel has %d packets of %d bytes in %d rounds of the mix, which has %d", sas, n, size, rounds, places)
				}
			}
		}
	}
}
