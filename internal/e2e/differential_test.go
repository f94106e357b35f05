package e2e

import (
	"slices"
	"testing"

	"github.com/warproute/warproute/internal/conformance"
	"github.com/warproute/warproute/internal/lab/differential"
)

// For any packet, warproute sends the same frames by the same sides as Linux, including ICMP errors with
// their quotes and replies of the router's host. differential.Differences lists the exceptions.
func TestForwardingEqualsLinux(t *testing.T) {
	t.Parallel()
	v := differential.Contest{Program: program, Ports: differential.Plain, Packets: 100_000}.Run(t)
	rules := conformance.Rules()
	for _, d := range differential.Differences() {
		if !slices.ContainsFunc(rules, func(r conformance.Rule) bool { return r.Key == d.Rule }) {
			t.Errorf("no rule is %q, by which %q is explained", d.Rule, d.Name)
		}
		if v.Explained[d.Name] == 0 && !d.Rare {
			t.Errorf("no packet shows the difference %q: fix the list or the traffic", d.Name)
		}
	}
}

// Linux forwards punted packets if its forwarding is on.
func TestLinuxForwardsPuntedPackets(t *testing.T) {
	v := differential.Contest{Program: program, Ports: differential.Plain, Packets: 20_000, Forwarding: true}.Run(t)
	for _, d := range differential.Differences() {
		if d.Punted && v.Explained[d.Name] > 0 {
			t.Errorf("%d packets show the difference %q, though Linux forwards beside the router", v.Explained[d.Name], d.Name)
		}
	}
}
