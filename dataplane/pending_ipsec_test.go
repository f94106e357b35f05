package dataplane_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

func TestNewPoliciesApplyToPendingPackets(t *testing.T) {
	anywhere := netip.MustParsePrefix("0.0.0.0/0")
	for _, c := range []struct {
		name         string
		action       policy.Action
		discarded    uint64
		left, sealed int
	}{
		{"none", policy.Bypass, 0, 20, 0},
		{"protect", policy.Protect, 0, 20, 20},
		{"discard", policy.Discard, 20, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, g := newRig(t, 1024), &gateway.Gateway{}
			sa, err := ipsec.NewSA(ipsec.Config{
				SPI: 0x100, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("10.1.0.9"), Suite: "aes128gcm16", Key: bytes.Repeat([]byte{1}, 20), Tunnel: g.Tunnel("a"),
			}, 1)
			require.NoError(t, err)
			require.NoError(t, g.Add(sa))
			r.engine.(*cpu.Engine).Secure(g, 0)
			r.fib.SetAdjacency(r.adj[1], 1, 0)
			r.queues[0].Play(numbered(20, "10.1.0.1"), 20)
			r.start()
			r.wait("20 waiting packets", func(s *dataplane.Stats) bool { return s.Waiting == 20 })
			chunks := r.router.Stats().Chunks
			require.NoError(t, g.SetRules([]gateway.Rule{{Policy: policy.Policy{Src: anywhere, Dst: anywhere, Action: c.action, Target: sa.Tunnel()}}}))
			r.fib.MarkChanged()
			r.wait("another try", func(s *dataplane.Stats) bool { return s.Chunks >= chunks+2 })
			if waiting := r.router.Stats().Waiting; waiting != 20-int64(c.discarded) {
				t.Errorf("%d packets wait after the policies changed", waiting)
			}
			r.fib.SetAdjacency(r.adj[1], 1, 0x0200000000bb)
			r.fib.Commit()
			r.wait("their ends", func(s *dataplane.Stats) bool {
				return s.Ports[1].TxPackets == uint64(c.left) && s.Ports[0].Drops[batch.XfrmOutPolBlock] == c.discarded
			})
			r.stop()
			sealed := 0
			for _, f := range r.out[1] {
				if (*packet.IPv4)(f[packet.EthernetLen:]).Protocol() == 50 {
					sealed++
				}
			}
			if len(r.out[1]) != c.left || sealed != c.sealed || sa.Sequence() != uint64(c.sealed) {
				t.Errorf("%d packets left, %d as ESP, %d sequence numbers used", len(r.out[1]), sealed, sa.Sequence())
			}
		})
	}
}
