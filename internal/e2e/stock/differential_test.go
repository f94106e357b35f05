package stock

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/conformance"
	"github.com/warproute/warproute/internal/lab/differential"
	"github.com/warproute/warproute/internal/lab/guest"
)

// logicalPorts are the kinds of ports on which routers are compared with Linux.
var logicalPorts = []differential.Ports{differential.VLANs, differential.Bonds, differential.VRFs, differential.Tunnels}

// On logical ports, and with routes that leave through Linux, warproute sends the same frames by the same sides as
// Linux for any packet, as on plain ports (internal/e2e.TestForwardingEqualsLinux).
func TestLogicalPortsEqualLinux(t *testing.T) {
	packets, limit, vm := 1_000, 5*time.Minute, guest.VM{} // packets of each kind
	if os.Getenv("WARPROUTE_SCALE") == "full" {
		packets, limit, vm.Memory = 100_000, 3*time.Hour, 4096 // the test keeps all packets, and the frames that they cause
	}
	modules := []string{"veth", "tun"}
	for _, p := range logicalPorts {
		modules = append(modules, p.Modules...)
	}
	vm.Test(t, limit, modules, func(t *testing.T, program string) {
		rules := conformance.Rules()
		for _, p := range logicalPorts {
			t.Run(p.Name, func(t *testing.T) {
				differential.Contest{Program: program, Ports: p, Packets: p.Kinds * packets}.Run(t)
				for _, d := range p.Differences {
					if !slices.ContainsFunc(rules, func(r conformance.Rule) bool { return r.Key == d.Rule }) {
						t.Errorf("no rule is %q, by which %q is explained", d.Rule, d.Name)
					}
				}
			})
		}
	})
}
