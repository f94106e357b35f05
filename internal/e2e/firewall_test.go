package e2e

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/lab"
)

// A firewall that forwarded packets do not pass any more is pointed out, by the router at its
// start and by doctor; where there is none, nothing is said of one.
func TestAFirewallIsPointedOut(t *testing.T) {
	const says = "does not pass the rules of netfilter"
	top := newTopology(t, lab.VethOptions{})
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	r.stop()
	if strings.Contains(r.out.String(), says) {
		t.Errorf("without a firewall, the router says:\n%s", r.out)
	}
	for _, args := range [][]string{
		{"add", "table", "inet", "firewall"},
		{"add", "chain", "inet", "firewall", "forward", "{ type filter hook forward priority 0; policy drop; }"},
	} {
		must(t, top.Router, "nft", args...)
	}
	out, err := top.Router.Run(program, "doctor")
	if err != nil || !strings.Contains(out, "does not pass inet firewall forward (policy drop)") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	r = startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	if !strings.Contains(r.out.String(), says) || !strings.Contains(r.out.String(), "inet firewall forward (policy drop)") {
		t.Errorf("the router says:\n%s", r.out)
	}
}
