package service

import (
	"slices"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/netdev"
)

// Physical ports have the lowest port numbers, up to a limit that is fixed at the start, and VLANs and bonds have the numbers from it on.

// physicalNumbers returns the limit for a number of ports at the start and logical ports on them.
//
// There are more numbers than ports, because a number is not used again for some seconds (fib.PortNumbers). Logical ports that exist at the
// start come first, but before them ports that patterns or max_ports announce. Without further ports, no number is kept.
func physicalNumbers(cfg *config.Config, start, logical int) int {
	bonded := func(p config.Port) bool { return p.Bond != "" } // members leave and join again
	most := cfg.Room(start)
	if most == start && !cfg.Patterns() && !slices.ContainsFunc(cfg.Ports, bonded) {
		return start
	}
	least := start
	if cfg.MaxPorts > 0 || cfg.Patterns() {
		least = most
	}
	kept := min(start+8*max(most-start, 4), batch.MaxPorts/2)
	return max(1, least, min(kept, batch.MaxPorts-logical))
}

// countLogical returns the number of logical ports that devices are on ports: bonds, and VLANs on ports, bonds and VLANs.
func countLogical(ports []config.Port, devices []netdev.Device) (n int) {
	carry := map[int]bool{} // by index of the device
	for _, d := range devices {
		switch {
		case slices.ContainsFunc(ports, func(p config.Port) bool { return p.Bond == d.Name }):
			carry[d.Index] = true
			n++
		case slices.ContainsFunc(ports, func(p config.Port) bool { return p.Interface == d.Name }):
			carry[d.Index] = true
		}
	}
	for found := true; found; { // a VLAN that was moved here may have a lower index than its parent
		found = false
		for _, d := range devices {
			if d.Kind == "vlan" && !d.Foreign && carry[d.Lower] && !carry[d.Index] {
				carry[d.Index], found = true, true
				n++
			}
		}
	}
	return n
}
