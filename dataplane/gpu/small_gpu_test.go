//go:build gpu

package gpu

import (
	"errors"
	"testing"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
)

// smallGPU returns options that make a GPU like a smaller one. A driver before CUDA 12.5 cannot limit
// multiprocessors.
func smallGPU(t *testing.T, shared, multiprocessors int) Options {
	t.Helper()
	found := got(find("", 1))(t)[0]
	ctx, n, err := openContext(found, multiprocessors)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Log(err)
		return Options{SharedLimit: shared}
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := ctx.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("%d multiprocessors", n)
	return Options{SharedLimit: shared, Multiprocessors: multiprocessors}
}

// TestGPUGatewayFitsASmallGPU: 101,376 bytes of shared memory per block and 58 multiprocessors, as an L4
// has. Results are the CPU engine's, byte for byte. The host decrypts AES-CBC.
func TestGPUGatewayFitsASmallGPU(t *testing.T) {
	o := smallGPU(t, l4Shared, 58)
	maker := func(t *testing.T, net *testutil.Network, g *gateway.Gateway) secured {
		w := openSecured(t, net, g, o)
		if n := w.engine.mailbox.batches; n != 6 {
			t.Errorf("%d warps per block, want 6", n)
		}
		return w
	}
	packets := 100_000
	if testing.Short() {
		packets = 10_000
	}
	t.Run("all suites", func(t *testing.T) { agreeOnSecured(t, maker, packets) })
	t.Run("SA lookup", func(t *testing.T) { agreeOnSecured(t, unread(maker, true, true), packets) })
	t.Run("expected SAs", func(t *testing.T) { agreeOnExpected(t, maker, 2) })
	t.Run("CBC", func(t *testing.T) { agreeOnCBC(t, maker) })
}

// TestGPUForwardsOnASmallGPU: with 65,536 bytes of shared memory per block, as a T4 has.
func TestGPUForwardsOnASmallGPU(t *testing.T) {
	o := smallGPU(t, 65536, 40)
	packets := 300_000
	if testing.Short() {
		packets = 50_000
	}
	agreeOnTraffic(t, onGPUWith(nil, o), packets)
}
