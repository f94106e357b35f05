package gateway

import (
	"net/netip"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
)

// Fragments are reassembled for a host while there is an SA in transport mode and a policy that protects
// some of its traffic.
func TestArrivesInTransport(t *testing.T) {
	for _, mode := range []ipsec.Mode{ipsec.Transport, ipsec.Tunnel} {
		g := &Gateway{}
		sa, err := ipsec.NewSA(ipsec.Config{
			SPI: 0x100, Direction: ipsec.In, Mode: mode, Src: netip.MustParseAddr("10.0.0.2"), Dst: netip.MustParseAddr("10.0.0.1"), Suite: "aes128gcm16",
			Key: make([]byte, 20), Tunnel: g.Tunnel("b"),
		}, 1)
		require.NoError(t, err)
		require.NoError(t, g.Add(sa))
		require.NoError(t, g.SetRules([]Rule{{Direction: ipsec.In, Policy: policy.Policy{
			Src: netip.MustParsePrefix("10.0.0.2/32"), Dst: netip.MustParsePrefix("10.0.0.1/32"), Protocol: 6, Action: policy.Protect, Target: sa.Tunnel(),
		}}}))
		packet := func(src byte) []byte {
			return append([]byte{0x45, 0, 0, 20, 0, 0, 0x20, 0, 64, 50, 0, 0}, 10, 0, 0, src, 10, 0, 0, 1)
		}
		ask := func(src byte) bool {
			f := AnyFlow(packet(src))
			return g.ArrivesInTransport(&f)
		}
		if got := ask(2); got != (mode == ipsec.Transport) {
			t.Errorf("%v: from the peer: %v", mode, got)
		}
		if ask(3) {
			t.Errorf("%v: from a stranger", mode)
		}
		if g.Remove(sa); ask(2) {
			t.Errorf("%v: without the association", mode)
		}
	}
}
