package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// Packets that an unsupported policy matches are dropped; the drop reason, `show policies`, `trace`,
// the log and doctor name the policy.
func TestRefusedPoliciesAreReported(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startConfigured(t, top.Router, "ports: [{interface: lan0}, {interface: wan0}]\nipsec: {source: xfrm}\n")
	ping := func() error {
		_, err := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
		return err
	}
	require.NoError(t, ping())
	// As strongSwan makes it with mark_out = 42: the selector is everything.
	policy := []string{"xfrm", "policy", "add", "src", "0.0.0.0/0", "dst", "0.0.0.0/0", "dir", "out", "mark", "42",
		"tmpl", "src", "10.8.0.1", "dst", "10.8.0.2", "proto", "esp", "mode", "tunnel"}
	must(t, top.Router, "ip", policy...)
	const reason = "has a mark"
	eventually(t, 5*time.Second, "the log names the policy", func() bool {
		out := r.Out.String()
		return strings.Contains(out, `policy="0.0.0.0/0 to 0.0.0.0/0 (out)" reason="`+reason+`" hint=`)
	})
	trace := r.command("trace", "--count", "1", "--duration", "5s", "icmp")
	eventually(t, 5*time.Second, "the policy drops packets under its reason", func() bool {
		return ping() != nil && r.Drops("xfrm_policy_refused") > 1
	})
	if n := r.Drops("xfrm_out_pol_block"); n != 0 {
		t.Errorf("%d packets count as blocked as configured", n)
	}
	for _, args := range [][]string{{"show", "policies"}, {"show", "policies", "--json"}, {"show", "drops"}} {
		want := reason
		if args[1] == "drops" {
			want = "`show policies` names the policy"
		}
		if out := r.command(args...)(); !strings.Contains(out, want) {
			t.Errorf("%v prints no %q:\n%s", args, want, out)
		}
	}
	if out := trace(); !strings.Contains(out, reason) || !strings.Contains(out, "xfrm_policy_refused") {
		t.Errorf("the trace does not name the policy:\n%s", out)
	}
	if out := must(t, top.Router, program, "doctor"); !strings.Contains(out, "0.0.0.0/0 to 0.0.0.0/0 (out): "+reason) {
		t.Errorf("doctor does not list the policy:\n%s", out)
	}
	ip(t, top.Router, "xfrm policy flush")
	eventually(t, 5*time.Second, "packets pass again", func() bool { return ping() == nil })
}
