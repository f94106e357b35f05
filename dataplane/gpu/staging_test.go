package gpu

import (
	"testing"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/suite"
)

// gcmTraffic returns packets of a length for the tunnels with AES-GCM, to encrypt and to decrypt.
func gcmTraffic(w *securedTwins, length func() int) func() []byte {
	var tunnels []int
	for k, a := range w.all {
		if a.suite.Cipher == suite.GCM && a.Mode == ipsec.Tunnel {
			tunnels = append(tunnels, k)
		}
	}
	return func() []byte {
		k, payload := tunnels[w.rnd.IntN(len(tunnels))], randomBytes(w.rnd, length())
		if w.rnd.IntN(2) == 0 {
			return testutil.UDP4("192.0.2.1", "10.1.0.1", 9, uint16(outPort+k), payload...)
		}
		return w.protected(w.all[k], testutil.UDP4("192.0.2.1", "10.1.0.1", uint16(inPort+k), 9, payload...), nil)
	}
}

// TestSmallDeviceStagesFourLongPackets: a warp with the staging buffer that the limits of an L4 leave encrypts and decrypts four packets of 1,408 bytes
// with AES-GCM at a time, of SAs of their own: by jobs, and in first passes.
func TestSmallDeviceStagesFourLongPackets(t *testing.T) {
	maker := func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		t.Helper()
		s, _ := securedOnShim(t, net, g, got(gatewayNeeds.shape(ada))(t), 1, "1") // a set per batch
		return s
	}
	for name, maker := range map[string]securedMaker{"jobs": maker, "first passes": unread(maker, true, true)} {
		t.Run(name, func(t *testing.T) {
			w := newSecuredTwins(t, maker, 41)
			w.most = 4 * w.gpu.engine.tiling.batches
			next := gcmTraffic(w, func() int { return 1380 })
			for range 10 {
				w.run(next)
			}
			if w.opened < 50 || w.sealed < 50 {
				t.Errorf("%d packets decrypted, %d encrypted: want 50 of each", w.opened, w.sealed)
			}
		})
	}
}

// TestKeysAreStagedForPacketsOfEachLength: packets of similar lengths, which share the lanes, have all powers of the hash key that they use. The staging buffer is
// that of an L4, and batches have up to 4 packets, up to 7, and more.
func TestKeysAreStagedForPacketsOfEachLength(t *testing.T) {
	for name, maker := range map[string]securedMaker{"jobs": securedOnHost(1508), "first passes": unread(securedOnHost(1508), true, true)} {
		t.Run(name, func(t *testing.T) {
			w := newSecuredTwins(t, maker, 42)
			size := 0
			next := gcmTraffic(w, func() int { return size - w.rnd.IntN(1+size/4) })
			for i := range 30 {
				w.most = min([]int{4, 7, 28}[i%3]*w.gpu.engine.tiling.batches, securedChunk)
				size = []int{0, 30, 90, 150, 250, 400, 600, 800, 1000, 1400}[i/3]
				w.run(next)
			}
			if w.opened < 200 || w.sealed < 200 {
				t.Errorf("%d packets decrypted, %d encrypted: want 200 of each", w.opened, w.sealed)
			}
		})
	}
}
