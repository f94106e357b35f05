package e2e

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/document"
	"github.com/warproute/warproute/internal/require"
)

// blockCommands returns the commands of the unit ipsec-block of gw1 in the how-to of strongSwan.
func blockCommands(t *testing.T) (commands [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/howto/strongswan-gateway.md")
	require.NoError(t, err)
	steps, err := document.Parse(string(text))
	require.NoError(t, err)
	for _, s := range steps {
		if s.Kind != document.File || s.Path != "/etc/systemd/system/ipsec-block.service" || s.Hosts[0] != "gw1" {
			continue
		}
		there := ""
		for line := range strings.Lines(s.Text) {
			line = strings.TrimSpace(line)
			if value, ok := strings.CutPrefix(line, "Environment=THERE="); ok {
				there = value
			}
			if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
				commands = append(commands, strings.Fields(strings.ReplaceAll(command, "${THERE}", there)))
			}
		}
	}
	if len(commands) != 3 {
		t.Fatalf("the unit has the commands %q, want 3", commands)
	}
	return commands
}

// With the policies of ipsec-block and without those of strongSwan, no packet passes between the networks, in either direction. A policy
// of strongSwan comes first while it exists, and its removal leaves the others. Without them, packets pass.
func TestBlockPoliciesOfTheHowTo(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startConfigured(t, top.Router, "ports: [{interface: lan0}, {interface: wan0}]\nipsec: {source: xfrm}\n")
	ping := func(from *lab.Namespace, to netip.Addr) error {
		_, err := lab.Ping(from, to, lab.PingOptions{Count: 1, Timeout: 300 * time.Millisecond})
		return err
	}
	require.NoError(t, ping(top.Client, lab.Server4.Addr()))
	dropped := func(when string, from *lab.Namespace, to netip.Addr, reason string) {
		t.Helper()
		eventually(t, 5*time.Second, when+": packets are dropped as "+reason, func() bool {
			before := r.Drops(reason)
			return ping(from, to) != nil && r.Drops(reason) > before
		})
	}
	for _, c := range blockCommands(t) {
		must(t, top.Router, c[0], c[1:]...)
	}
	for _, when := range []string{"before strongSwan", "after strongSwan"} {
		dropped(when, top.Client, lab.Server4.Addr(), "xfrm_out_pol_block")
		dropped(when, top.Server, lab.Client4.Addr(), "xfrm_in_pol_block")
		ip(t, top.Router, "xfrm policy add src 10.7.0.0/24 dst 10.8.0.0/24 dir out priority 375423 tmpl src 10.8.0.1 dst 10.8.0.2 proto esp mode tunnel reqid 1")
		dropped("with the policy of strongSwan", top.Client, lab.Server4.Addr(), "xfrm_out_no_states")
		ip(t, top.Router, "xfrm policy delete src 10.7.0.0/24 dst 10.8.0.0/24 dir out")
	}
	dropped("at the end", top.Client, lab.Server4.Addr(), "xfrm_out_pol_block")
	ip(t, top.Router, "xfrm policy flush")
	eventually(t, 5*time.Second, "packets pass without the policies", func() bool { return ping(top.Client, lab.Server4.Addr()) == nil })
}
