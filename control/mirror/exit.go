package mirror

import (
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// linuxForwarding holds the settings by which Linux forwards. A route over an interface that is not a port
// exits by Linux if Linux forwards on this interface, too: whoever sets that wants traffic of it routed.
type linuxForwarding struct {
	ipv4 map[int]bool // by interface index
	ipv6 bool         // on all interfaces
}

// readForwarding reads the settings of all interfaces.
func (s *state) readForwarding(conn *rtnl.Conn) error {
	for _, f := range families {
		if err := conn.Dump(rtnl.Netconfs(f), func(msg rtnl.Message) error { return rtnl.Parse(msg, s.setForwarding) }); err != nil && f == unix.AF_INET {
			return err // kernels without IPv6 fail the other dump
		}
	}
	return nil
}

// setForwarding applies settings of an interface.
func (s *state) setForwarding(n *rtnl.Netconf) {
	f := &s.forwarding
	switch {
	case !n.HasForwarding:
	case n.Family == unix.AF_INET && n.Index > 0 && f.ipv4[n.Index] != n.Forwarding:
		if f.ipv4 == nil {
			f.ipv4 = map[int]bool{}
		}
		f.ipv4[n.Index] = n.Forwarding
		s.updateExits(func(h *hop) bool { return h.over(n.Index) })
	case n.Family == unix.AF_INET6 && n.Index == rtnl.NetconfAll && f.ipv6 != n.Forwarding:
		f.ipv6 = n.Forwarding
		s.updateExits(func(*hop) bool { return true })
	}
}

// updateExits updates the exits of the hops that match.
func (s *state) updateExits(matches func(*hop) bool) {
	for _, h := range s.hops {
		if h.kind == fib.KindNoPort && matches(h) {
			s.writeExits(h)
		}
	}
}

// writeExits writes how Linux reaches the destinations of a hop.
func (s *state) writeExits(h *hop) {
	h.exits = 0
	if h.kind == fib.KindNoPort {
		h.exits = s.exitsOf(h)
	}
	if h.id != 0 && s.fib.SetExits(h.id, h.exits) {
		s.changed = true
	}
}

// exitsOf returns the exits of a hop. Linux chooses among its paths, so all that are up have to lead to them.
// None leads to an interface of the router itself, by which packets would return to it, nor on a gateway to an XFRM
// interface that is not a tunnel of the router: Linux would use an SA's sequence numbers.
func (s *state) exitsOf(h *hop) int {
	exits, tunnel, found := fib.ExitIPv4|fib.ExitIPv6, true, false
	for i := range h.paths {
		p := &h.paths[i]
		l := s.links[p.link]
		switch {
		case l == nil || p.dead || l.Flags&unix.IFF_UP == 0 || l.port >= 0 && !l.up:
			continue
		case l.Name == s.hooks.Own, s.tunnelOf(p) != 0: // by XFRM interfaces, whose packets are diverted to it
			exits = 0
		case !s.hooks.Exits || p.encap || l.Kind == "xfrm" && s.hooks.Tunnels != nil || l.port >= 0 || l.Claimed() || l.Name == s.hooks.ExitInterface || l.Flags&unix.IFF_LOOPBACK != 0:
			exits, tunnel = 0, false
		default:
			tunnel = false
		}
		found = true
		if !s.forwarding.ipv4[p.link] {
			exits &^= fib.ExitIPv4
		}
		if !s.forwarding.ipv6 && !l.Forced6 {
			exits &^= fib.ExitIPv6
		}
	}
	switch {
	case !found:
		return 0
	case tunnel && s.hooks.Own != "":
		return fib.ExitTunnel
	}
	return exits
}

// exitsByLinux reports whether Linux forwards packets of a family to the destinations of a hop.
func (h *hop) exitsByLinux(ipv4 bool) bool {
	if ipv4 {
		return h.exits&fib.ExitIPv4 != 0
	}
	return h.exits&fib.ExitIPv6 != 0
}
