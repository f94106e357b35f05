package metrics

import "github.com/warproute/warproute/control/guard"

var (
	linuxForwarding = desc("linux_forwarding", "Whether Linux is configured to forward packets received on a port of a gateway (1) or not (0).", "port", "family")
	guardActive     = desc("guard_active", "Whether nftables rules keep Linux from forwarding from and to the ports of a gateway (1) or not (0).")
)

// guard sends the Linux forwarding state of a gateway; other routers send nothing.
func (ch sender) guard(s *guard.State) {
	if s == nil {
		return
	}
	ch.gauge(guardActive, number(s.Active))
	for _, p := range s.Ports {
		ch.gauge(linuxForwarding, number(p.IPv4), p.Name, "ipv4")
		ch.gauge(linuxForwarding, number(p.IPv6), p.Name, "ipv6")
	}
}

// number returns 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
