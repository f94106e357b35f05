package e2e

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
)

// The router at its start and doctor report a firewall that forwarded packets bypass.
func TestBypassedFirewallIsReported(t *testing.T) {
	const says = "forwarded packets bypass netfilter rules"
	top, r := startTwoPorts(t)
	r.Stop()
	if strings.Contains(r.Out.String(), says) {
		t.Errorf("without a firewall, the router says:\n%s", r.Out)
	}
	for _, args := range [][]string{
		{"add", "table", "inet", "firewall"},
		{"add", "chain", "inet", "firewall", "forward", "{ type filter hook forward priority 0; policy drop; }"},
	} {
		must(t, top.Router, "nft", args...)
	}
	out, err := top.Router.Run(program, "doctor")
	if err != nil || !strings.Contains(out, "bypass inet firewall forward (policy drop)") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	r = startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	if !strings.Contains(r.Out.String(), says) || !strings.Contains(r.Out.String(), "inet firewall forward (policy drop)") {
		t.Errorf("the router says:\n%s", r.Out)
	}
}
