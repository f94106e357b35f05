package gpu

import (
	"testing"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/suite"
)

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
			var tunnels []int
			for k, a := range w.all {
				if a.suite.Cipher == suite.GCM && a.Mode == ipsec.Tunnel {
					tunnels = append(tunnels, k)
				}
			}
			for range 10 {
				w.run(func() []byte {
					k := tunnels[w.rnd.IntN(len(tunnels))]
					if w.rnd.IntN(2) == 0 {
						return testutil.UDP4("192.0.2.1", "10.1.0.1", 9, uint16(outPort+k), randomBytes(w.rnd, 1380)...)
					}
					return w.protected(w.all[k], testutil.UDP4("192.0.2.1", "10.1.0.1", uint16(inPort+k), 9, randomBytes(w.rnd, 1380)...), nil)
				})
			}
			if w.opened < 50 || w.sealed < 50 {
				t.Errorf("%d packets decrypted, %d encrypted: want 50 of each", w.opened, w.sealed)
			}
		})
	}
}
