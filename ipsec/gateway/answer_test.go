package gateway

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/policy"
	"github.com/warproute/warproute/packet"
)

// Answers leave in plaintext unless a policy protects or discards them, or ICMP errors between the addresses.
func TestAnswersInPlaintextFollowTheOutboundPolicies(t *testing.T) {
	g := &Gateway{}
	out := newSA(t, g, ipsec.Out, "out", 0x100)
	rule := func(src, dst string, protocol uint8, a policy.Action) Rule {
		return Rule{Direction: ipsec.Out, Policy: policy.Policy{Src: prefix(src), Dst: prefix(dst), Protocol: protocol, Action: a, Target: out.Tunnel()}}
	}
	require.NoError(t, g.SetRules([]Rule{
		rule("10.1.0.0/16", "10.2.0.0/16", 0, policy.Protect), rule("fd01::/64", "fd02::/64", 0, policy.Protect),
		rule("10.1.0.0/16", "10.3.0.0/16", 0, policy.Discard), rule("10.1.0.0/16", "10.4.0.0/16", 1, policy.Protect),
		rule("10.1.0.0/16", "10.5.0.0/16", 17, policy.Protect), rule("10.1.0.0/16", "10.6.0.0/16", 6, policy.Protect),
	}))
	for _, c := range []struct {
		src  string
		want bool
	}{{"10.2.0.1", false}, {"10.3.0.1", false}, {"10.4.0.1", false}, {"10.5.0.1", false}, {"10.6.0.1", true}, {"10.7.0.1", true}} {
		f := testutil.UDP4(c.src, "10.1.0.1", 1, 2, make([]byte, 100)...)
		if got := g.AnswersInPlaintext(f[packet.EthernetLen:]); got != c.want {
			t.Errorf("answers to %s in plaintext: %v", c.src, got)
		}
	}
	for src, want := range map[string]bool{"fd02::1": false, "fd03::1": true} {
		f := testutil.UDP6(src, "fd01::1", 1, 2, make([]byte, 100)...)
		if got := g.AnswersInPlaintext(f[packet.EthernetLen:]); got != want {
			t.Errorf("answers to %s in plaintext: %v", src, got)
		}
	}
	// The other direction is not that of the answers.
	if f := testutil.UDP4("10.1.0.1", "10.2.0.1", 1, 2, make([]byte, 100)...); !g.AnswersInPlaintext(f[packet.EthernetLen:]) {
		t.Error("the policies of packets, not of answers, decide")
	}
}
