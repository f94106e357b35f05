package metrics

import "github.com/warproute/warproute/control/guard"

var (
	linuxForwarding = desc("linux_forwarding", "Whether Linux is set to forward packets that arrive at a port of a gateway (1) or not (0).", "port", "family")
	guardHeld       = desc("guard_held", "Whether a gateway keeps Linux from forwarding from and to its ports, by nftables (1) or not (0).")
)

// guard sends what a gateway knows of Linux's forwarding; other routers send nothing.
func (ch sender) guard(s *guard.State) {
	if s == nil {
		return
	}
	ch.gauge(guardHeld, number(s.Held))
	for _, p := range s.Ports {
		ch.gauge(linuxForwarding, number(p.IPv4), p.Name, "ipv4")
		ch.gauge(linuxForwarding, number(p.IPv6), p.Name, "ipv6")
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
